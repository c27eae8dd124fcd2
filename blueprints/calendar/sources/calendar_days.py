"""A data source of Spark: the days of a year, read month by month."""

from datetime import date, timedelta

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition


class CalendarDays(DataSource):
    @classmethod
    def name(cls):
        return "calendar_days"

    def schema(self):
        return "day DATE, weekday INT"

    def reader(self, schema):  # noqa: ARG002  # the name that Spark calls it by
        return YearReader(int(self.options["year"]))


class YearReader(DataSourceReader):
    def __init__(self, year):
        self.year = year

    def partitions(self):
        return [InputPartition(month) for month in range(1, 13)]

    def read(self, partition):
        day = date(self.year, partition.value, 1)
        while day.month == partition.value:
            yield day, day.isoweekday()
            day += timedelta(days=1)


def calendar_days():
    return CalendarDays

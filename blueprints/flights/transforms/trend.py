"""Each day beside the seven days that end with it, and its rank among the days of its season."""

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

import seasons


def transform(daily: DataFrame) -> DataFrame:
    days = daily.withColumn("season", seasons.season(F.col("date")))
    week = Window.orderBy("date").rowsBetween(-6, Window.currentRow)
    worst_first = Window.partitionBy("season").orderBy(F.desc("late"))
    return days.select(
        "date",
        "season",
        F.date_format("date", "EEEE").alias("weekday"),
        "flights",
        "late",
        F.sum("flights").over(week).alias("week_flights"),
        (F.sum("late").over(week) / F.sum("flights").over(week)).alias("week_late_share"),
        F.rank().over(worst_first).alias("rank_in_season"),
    )

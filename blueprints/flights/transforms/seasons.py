"""The meteorological seasons of the northern half of the world."""

from pyspark.sql import Column
from pyspark.sql import functions as F

SEASONS = {"winter": (12, 1, 2), "spring": (3, 4, 5), "summer": (6, 7, 8), "autumn": (9, 10, 11)}


def season(date: Column) -> Column:
    """The name of the season that a date is in."""
    month = F.month(date)
    names = [F.when(month.isin(*months), name) for name, months in SEASONS.items()]
    return F.coalesce(*names)

"""What every dataset of `blueprints/flights` must hold, computed by DuckDB from the raw CSV files.

Independent of the code under test: nothing here imports it, and the queries are written for DuckDB,
not translated.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import duckdb

CSV = "read_csv('{folder}/{files}', header = true, nullstr = 'NA', auto_detect = false, columns = {{{columns}}})"
SOURCES = {
    "flights/*.csv": """
        year INT, month INT, day INT, dep_time INT, sched_dep_time INT, dep_delay INT, arr_time INT, sched_arr_time INT,
        arr_delay INT, carrier TEXT, flight INT, tailnum TEXT, origin TEXT, dest TEXT, air_time INT, distance INT,
        hour INT, minute INT, time_hour TIMESTAMPTZ""",
    "weather/*.csv": """
        origin TEXT, year INT, month INT, day INT, hour INT, temp DOUBLE, dewp DOUBLE, humid DOUBLE, wind_dir INT,
        wind_speed DOUBLE, wind_gust DOUBLE, precip DOUBLE, pressure DOUBLE, visib DOUBLE, time_hour TIMESTAMPTZ""",
    "airlines.csv": "carrier TEXT, name TEXT",
    "airports.csv": "faa TEXT, name TEXT, lat DOUBLE, lon DOUBLE, alt INT, tz INT, dst TEXT, tzone TEXT",
    "planes.csv": """
        tailnum TEXT, year INT, type TEXT, manufacturer TEXT, model TEXT, engines INT, seats INT, speed INT,
        engine TEXT""",
}
DERIVED = {
    "legs": """
        SELECT make_date(year, month, day) AS date, time_hour, carrier, flight, tailnum, origin, dest, distance,
               coalesce(dep_time, 0) = 0 AS cancelled, dep_delay, arr_delay, air_time
        FROM flights""",
    "named": """
        SELECT l.*, (SELECT name FROM airlines a WHERE a.carrier = l.carrier) AS airline, d.name AS destination,
               p.manufacturer, p.seats, CAST(2013 - p.year AS INT) AS plane_age
        FROM planes p RIGHT JOIN (legs l LEFT JOIN airports d ON l.dest = d.faa) ON l.tailnum = p.tailnum""",
    "weather_hours": """
        SELECT origin, time_hour, max(wind_speed) FILTER (wind_speed < 200) AS wind_speed, bool_or(precip > 0) AS rain,
               min(visib) AS visib
        FROM weather GROUP BY ALL""",
    "delays": """
        SELECT n.date, n.carrier, n.airline, n.flight, n.origin, n.dest, n.destination, n.tailnum, n.plane_age,
               n.cancelled, n.dep_delay, n.arr_delay, n.dep_delay - n.arr_delay AS caught_up,
               n.arr_delay IS NOT NULL AND n.arr_delay > 14 AS late,
               round(60.0 * n.distance / n.air_time, 1) AS miles_per_hour, w.wind_speed, w.rain, w.visib
        FROM weather_hours w RIGHT JOIN named n USING (origin, time_hour)""",
    "by_carrier": """
        SELECT carrier, airline, count(*) AS flights, count(DISTINCT tailnum) AS planes,
               sum(CAST(cancelled AS BIGINT)) AS cancelled, sum(arr_delay) / count(arr_delay) AS mean_arr_delay,
               sum(CAST(late AS INT)) / count(*) AS late_share
        FROM delays GROUP BY ALL""",
    "by_route": """
        SELECT origin, dest, destination, count(*) AS flights, count(DISTINCT carrier) AS carriers,
               sum(arr_delay) / nullif(count(arr_delay), 0) AS mean_arr_delay, max(arr_delay) AS worst_arr_delay
        FROM delays GROUP BY ALL""",
    "daily": """
        SELECT date, count(*) AS flights, count(*) FILTER (cancelled) AS cancelled, count(*) FILTER (late) AS late,
               count(*) FILTER (rain) AS in_rain, sum(dep_delay) / count(dep_delay) AS mean_dep_delay,
               sum(arr_delay) / count(arr_delay) AS mean_arr_delay
        FROM delays GROUP BY ALL""",
    "trend": """
        SELECT d.date, s.season, dayname(d.date) AS weekday, d.flights, d.late, w.flights AS week_flights,
               w.late / w.flights AS week_late_share,
               rank() OVER (PARTITION BY s.season ORDER BY d.late DESC) AS rank_in_season
        FROM daily d,
             (VALUES ('winter', 0), ('spring', 1), ('summer', 2), ('autumn', 3)) AS s (season, quarter),
             LATERAL (SELECT sum(flights) AS flights, sum(late) AS late
                      FROM daily e WHERE e.date BETWEEN d.date - 6 AND d.date) w
        WHERE month(d.date) % 12 // 3 = s.quarter""",
}


def oracle(folder: Path, edits: Mapping[str, str] | None = None) -> duckdb.DuckDBPyConnection:
    """A database with a table per dataset, computed from the CSV files that `folder` holds now.
    `edits`: other queries of datasets."""
    database = duckdb.connect()
    database.execute("SET TimeZone = 'UTC'")
    for files, columns in SOURCES.items():
        pairs = ", ".join(
            f"{column}: '{kind}'" for column, kind in map(str.split, columns.split(","))
        )
        source = CSV.format(folder=folder, files=files, columns=pairs)
        database.execute(
            f"CREATE TABLE {files.split('/')[0].removesuffix('.csv')} AS FROM {source}"
        )
    for dataset, query in (DERIVED | dict(edits or {})).items():
        database.execute(f"CREATE TABLE {dataset} AS {query}")
    return database

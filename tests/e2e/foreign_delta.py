"""A Delta table as somebody else's Spark writes it, with its whole history; shown version by
version.

Does not belong here: what Headgate makes of it.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import pyspark

from tests.jars import DELTA_CONF, delta_classpath
from tests.servers.programs import kept

STEPS = {
    "created": (
        "CREATE TABLE {t} (id INT, name STRING, day DATE, s STRUCT<a: INT>) USING delta PARTITIONED BY (day) "
        "TBLPROPERTIES ('delta.enableDeletionVectors' = true, 'delta.columnMapping.mode' = 'name', "
        "'delta.enableChangeDataFeed' = true, 'delta.checkpointInterval' = 4)",
    ),
    "filled": tuple(
        f"INSERT INTO {{t}} SELECT /*+ COALESCE(1) */ id, 'n' || id, {day}, named_struct('a', id) "
        f"FROM range({first}, {first + 10})"
        for day, first in (("date'2026-01-01'", 0), ("date'2026-01-02'", 10), ("NULL", 20))
    ),
    "corrected": ("DELETE FROM {t} WHERE id IN (3, 4)",),
    "late": ("INSERT INTO {t} VALUES (100, 'late \"one\"', date'2026-01-02', NULL)",),
    "withdrawn": ("DELETE FROM {t} WHERE day IS NULL",),
    "renamed": ("ALTER TABLE {t} RENAME COLUMN name TO label",),
    "compacted": ("OPTIMIZE {t}",),
    "widened": (
        "ALTER TABLE {t} ADD COLUMNS (extra DECIMAL(10,2))",
        "INSERT INTO {t} VALUES (101, 'x', date'2026-01-03', named_struct('a', 1), 1.50)",
    ),
    "emptied": ("DELETE FROM {t}",),
}
BY_SPARK = """\
import glob, json, sys
from pyspark.sql import SparkSession
conf, folder, steps = json.loads(sys.stdin.read())
builder = SparkSession.builder.master("local[1]")
for key, value in conf.items():
    builder = builder.config(key, value)
spark = builder.getOrCreate()
told = {}
for name, statements in steps.items():
    for statement in statements:
        spark.sql(statement.format(t=f"delta.`{folder}`"))
    rows = spark.read.format("delta").load(folder).toJSON().collect()
    last = max(glob.glob(f"{folder}/_delta_log/*.json"))
    told[name] = {"version": int(last[-25:-5]), "rows": [json.loads(row) for row in rows]}
spark.stop()
json.dump(told, open(f"{folder}.json", "w"))
"""


def spark_conf(scratch: Path) -> dict[str, str]:
    """Of a Spark that knows Delta tables."""
    return DELTA_CONF | {
        "spark.driver.extraClassPath": delta_classpath(),
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.databricks.delta.snapshotPartitions": "1",
    }


@dataclass(frozen=True)
class ForeignTable:
    """`made` holds the whole history, `shown` what there is to be seen now."""

    made: Path
    shown: Path
    told: Mapping[str, Any]

    @staticmethod
    def make(folder: Path) -> ForeignTable:
        """The history lies in the user's cache, and is written anew for other statements, another
        Spark or other jars.

        The table that is shown is a copy of it in `folder`.
        """
        recipe = json.dumps([BY_SPARK, STEPS, spark_conf(Path()), pyspark.__version__])
        history = kept(f"foreign-delta-{sha256(recipe.encode()).hexdigest()[:16]}", _write)
        return ForeignTable(
            history / "made", folder / "shown", json.loads((history / "made.json").read_text())
        )

    def show(self, step: str) -> list[dict[str, Any]]:
        """Let the table be as it was after a step; its rows, without fields that are NULL."""
        last, log = self.told[step]["version"], self.shown / "_delta_log"
        shutil.copytree(
            self.made,
            self.shown,
            dirs_exist_ok=True,
            ignore=shutil.ignore_patterns("_delta_log", "*.crc"),
        )
        log.mkdir(exist_ok=True)
        for file in sorted((self.made / "_delta_log").iterdir()):
            if (
                file.name[:20].isdigit()
                and int(file.name[:20]) <= last
                and not (log / file.name).exists()
            ):
                shutil.copy2(file, log / file.name)
        rows: list[dict[str, Any]] = self.told[step]["rows"]
        return rows


def _write(folder: Path) -> None:
    request = json.dumps([spark_conf(folder), str(folder / "made"), STEPS])
    environment = os.environ | {"PYSPARK_PYTHON": sys.executable}
    command = [sys.executable, "-c", BY_SPARK]
    subprocess.run(
        command, input=request.encode(), check=True, env=environment, capture_output=True
    )

"""A chain of row-wise SQL steps over the newest small file, in plain Spark with our driver's
settings.

    python benchmarks/plain_chain.py DATA OUT STEPS ROUNDS

Prints a JSON list: the seconds of one step in each round. Does not belong here: measuring of
anything else than its own steps.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.steps import SQL
from dataplane.spark.spark_session import start, stop
from dataplane.spark.warmup import spark_conf


def main(data: Path, out: Path, steps: int, rounds: int) -> list[float]:
    files = sorted(data.iterdir())[-rounds:]
    seconds = []
    with TemporaryDirectory(prefix="plain-chain-") as scratch:
        spark = start(Path(scratch), spark_conf())
        for number, file in enumerate(files):
            rows = spark.read.csv(str(file), schema="k INT, v INT, t STRING", header=True)
            rows.write.parquet(f"{out}/{number}/0")
            began = time.monotonic()
            for step in range(steps):
                source = f"parquet.`{out}/{number}/{step}`"
                spark.sql(SQL.format(source=source)).write.parquet(f"{out}/{number}/{step + 1}")
            seconds.append((time.monotonic() - began) / steps)
        stop(spark)
    return seconds


if __name__ == "__main__":
    print(
        json.dumps(main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])))
    )

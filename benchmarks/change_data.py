"""Change data: a table of a million keys, and batches that each change 1 % of them. Through a warm
`headgate serve` as rows and as versions of keys, and by Delta's MERGE.

    python benchmarks/change_data.py [--keys N] [--batches N]

Events are the same for all. The wide batches change random keys, the narrow ones one key,
so one bucket. Appends all numbers to benchmarks/results/change_data.json.
Does not belong here: streams.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks import pages
from benchmarks.processes import Cost, cpu_of, timed
from benchmarks.service import serving
from controlplane.client import Headgate

Json: TypeAlias = Any
HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results" / "change_data.json"
KEYS = 1_000_000
BATCHES = 5
SHARE = 100  # a batch changes one key of so many
BUCKETS = 64
COLUMNS = "id BIGINT, op STRING, seq BIGINT, name STRING, amount BIGINT"
HISTORIES = {"rows": "none", "versions": "versions"}


class Events:
    """Batches of events as Parquet files, made from their numbers alone."""

    def __init__(self, keys: int, batches: int) -> None:
        self.keys = keys
        self.wide = [self._batch(number, self._any_keys(number)) for number in range(batches)]
        one_key = np.zeros(keys // SHARE, "int64")
        self.narrow = [self._batch(number, one_key) for number in range(batches, 2 * batches)]

    def first(self) -> pa.Table:
        """An insert of each key."""
        return self._events(np.arange(self.keys), np.arange(self.keys))

    def _any_keys(self, number: int) -> np.ndarray[Any, Any]:
        return np.random.default_rng(number).integers(0, self.keys, self.keys // SHARE)

    def _batch(self, number: int, ids: np.ndarray[Any, Any]) -> pa.Table:
        """Sequences go on behind those of the batch before. One event of twenty is a delete."""
        begin = self.keys * (number + 2)
        return self._events(ids, begin + np.arange(len(ids)), deletes=20)

    def _events(
        self, ids: np.ndarray[Any, Any], seqs: np.ndarray[Any, Any], deletes: int = 0
    ) -> pa.Table:
        place = np.arange(len(ids))
        is_delete = place % deletes == 0 if deletes else np.zeros(len(ids), bool)
        return pa.table(
            {
                "id": ids.astype("int64"),
                "op": np.where(is_delete, "D", "U"),
                "seq": seqs.astype("int64"),
                "name": [f"name {seq % 1000}" for seq in seqs],
                "amount": (seqs * 7).astype("int64"),
            }
        )


def main() -> None:
    parser = argparse.ArgumentParser(description="Change data, beside MERGE.")
    parser.add_argument("--keys", type=int, default=KEYS, help=f"of the table ({KEYS:,})")
    parser.add_argument("--batches", type=int, default=BATCHES, help=f"of each kind ({BATCHES})")
    arguments = parser.parse_args()
    began = {"at": datetime.now(UTC).isoformat(timespec="seconds"), **pages.machine()}
    events = Events(arguments.keys, arguments.batches)
    with TemporaryDirectory(prefix="headgate-bench-") as scratch:
        folder = Path(scratch)
        result = {**began, "keys": arguments.keys, "batches": arguments.batches}
        result["merge"] = by_merge(folder / "merge", events)
        for name, history in HISTORIES.items():
            result[name] = through_headgate(folder / name, events, history)
    pages.store(RESULTS, [*pages.known_in(RESULTS), result])
    print("\n".join(table(result)))


def table(result: Json) -> list[str]:
    """Markdown: medians of all batches but the first one of each kind."""
    lines = ["| | wall, s | CPU, s | CPU / MERGE |", "|---|---|---|---|"]
    merge = _median(result["merge"]["wide"], "cpu_s")
    for name in ("merge", *HISTORIES):
        for kind, costs in result[name].items():
            wall_s, cpu_s = (_median(costs, unit) for unit in ("wall_s", "cpu_s"))
            lines.append(f"| {name}, {kind} | {wall_s:.2f} | {cpu_s:.2f} | {cpu_s / merge:.2f} |")
    return lines


def _median(costs: Sequence[Json], unit: str) -> float:
    return float(median(cost[unit] for cost in costs[1:]))


def by_merge(folder: Path, events: Events) -> Json:
    """MERGE INTO one Delta table without deletion vectors, in a warm session."""
    folder.mkdir()
    _write(folder / "first.parquet", events.first())
    for number, batch in enumerate(events.wide):
        _write(folder / f"wide-{number}.parquet", batch)
    command = [sys.executable, HERE / "plain_merge.py", folder, len(events.wide)]
    output = timed([str(word) for word in command], errors=folder / "errors").output
    return {"wide": json.loads(output)}


def through_headgate(folder: Path, events: Events, history: str) -> Json:
    """Files of events to a `cdc` component, through a warm service."""
    data = folder / "data"
    data.mkdir(parents=True)
    _write(data / "first.parquet", events.first())
    text = json.dumps(_blueprint(data, history))
    with serving(folder / "home", folder / "errors") as (client, pid):
        client.apply([{"name": "/shop.yaml", "text": text}])
        _wait(client, 0)
        kinds = {"wide": events.wide, "narrow": events.narrow}
        return {
            kind: [
                _late_file(client, pid, data / f"{kind}-{number}.parquet", batch)
                for number, batch in enumerate(batches)
            ]
            for kind, batches in kinds.items()
        }


def _blueprint(data: Path, history: str) -> Json:
    events = {
        "connector": "files",
        "path": f"{data}/*.parquet",
        "format": "parquet",
        "schema": COLUMNS,
    }
    customers = {
        "from": "events",
        "keys": ["id"],
        "sequence_by": ["seq"],
        "deletes": "op = 'D'",
        "columns": {"except": ["op", "seq"]},
        "on_tie": "greatest",
        "history": history,
        "buckets": BUCKETS,
    }
    components = {"events": {"read": events}, "customers": {"cdc": customers}}
    return {"dataflow": "shop", "components": components}


def _late_file(client: Headgate, pid: int, path: Path, batch: pa.Table) -> Json:
    """From the arrival of a file of events until the table of customers is published."""
    before = _generation(client)
    cpu_s, began = cpu_of(pid), time.monotonic()
    _write(path, batch)
    client.refresh("shop")
    _wait(client, before)
    cost = Cost(time.monotonic() - began, cpu_of(pid) - cpu_s).json()
    print(f"{path.stem}: {cost}", file=sys.stderr, flush=True)
    return cost


def _wait(client: Headgate, generation: int) -> None:
    for event in client.events():
        if event and event["kind"] == "task_failed":
            raise SystemExit(f"a task failed: {event}")
        if _generation(client) > generation:
            return


def _generation(client: Headgate) -> int:
    """The one of `customers` that is published; 0 if none is."""
    datasets = client.status("shop")["dataflows"][0]["datasets"]
    return next(d["published_generation"] or 0 for d in datasets if d["name"] == "shop.customers")


def _write(path: Path, events: pa.Table) -> None:
    landing = path.with_suffix(".landing")
    pq.write_table(events, landing)
    landing.rename(path)


if __name__ == "__main__":
    main()

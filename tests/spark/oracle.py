"""Random worlds of the property tests on real Spark, and what DuckDB makes of the same files.

    python -m tests.spark.oracle SEED [folds]

The model, the changes and the protocol's faults are those of `property`; claims of drivers are
carried out by the product's executor over Parquet files in a folder. Does not belong here: which
seeds are run, what is expected of them.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path

import duckdb
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from controlplane.core.plan import FEWEST
from controlplane.lake.lake_objects import LocalObjects
from controlplane.ports.store import Tx
from dataplane.contract.claims import Claim, TransformTask
from dataplane.contract.kinds import DRIVER_KINDS
from dataplane.contract.results import FollowingResult, TaskResult
from dataplane.runtime.driver import CLAIMERS
from dataplane.runtime.executor import Executor
from dataplane.spark.spark_session import start, stop
from dataplane.storage.lake import LocalLake
from tests.property import model
from tests.property.changes import Richer
from tests.property.engine import Engine, Fault, Lake, Taken, Work
from tests.property.further import Script
from tests.property.model import Component, Dataset, Fold, Fragment, Read, Row, Transform, Value
from tests.property.world import BRANCH, World, no_faults, require
from tests.spark.session_settings import INTERPRETED, new_sessions_with

SETTLES = 3  # after the first
TYPED = ("k", "v")  # what reads declare: Spark takes a column that has no value for a text


@dataclass(slots=True)
class SparkEngine(Engine):
    """A data plane with Spark. Rows are read back with pyarrow."""

    executor: Executor | None = None
    _known: dict[str, Fragment] = field(default_factory=dict)
    _noted: dict[str, dict[str, Work]] = field(default_factory=dict)  # as `_runs`, by attempt

    def _carry_out(self, claims: Sequence[Claim]) -> Sequence[list[TaskResult]]:
        """At the same time, as the threads of a driver would; what comes of it does not depend on
        who is first."""
        with ThreadPoolExecutor(len(claims) or 1) as threads:
            return list(threads.map(self._one, claims))

    def _one(self, claim: Claim) -> list[TaskResult]:
        assert self.executor is not None
        if claim["kind"] in DRIVER_KINDS:
            results = self.executor.run(claim)
            self._noted[claim["attempt"]] = dict(self._gone_on(claim, results))
            return results
        return [self._result(claim, t) for t in claim["tasks"]]

    def _gone_on(self, claim: Claim, results: Sequence[TaskResult]) -> Iterator[tuple[str, Work]]:
        """What the driver went on to after its tasks, each of which read what the one before it
        gave: followers, and tasks of a fold."""
        if claim["kind"] == "parse" or claim["kind"] == "transform":
            yield from self.followed(claim, results)
        if claim["kind"] != "transform":
            return
        for head, result in zip(claim["tasks"], results, strict=True):
            before: TaskResult | FollowingResult = result
            for one, found in zip(head.get("then", ()), result.get("then", ()), strict=False):
                slots = one["slots"] | {
                    claim["job"]["fold"]["name"]: [file["path"] for file in before["files"]]
                }
                spec: TransformTask = {
                    **head,
                    "task": found["task"],
                    "partition": one["partition"],
                    "slots": slots,
                }
                work = self._work(claim, spec)
                assert work is not None
                yield found["task"], work
                before = found

    def _finish(self, taken: Taken, results: list[TaskResult], fault: Fault) -> None:
        self._runs.update(self._noted.pop(taken.claim["attempt"], {}))
        Engine._finish(self, taken, results, fault)

    def fragment(self, path: str) -> Fragment:
        """One file, which never changes."""
        if path not in self._known:
            assert isinstance(self.lake, LocalObjects)
            table = pq.ParquetFile(self.lake.root / path).read()
            names = tuple(table.column_names)
            rows = zip(*(map(_plain, column.to_pylist()) for column in table.columns), strict=True)
            self._known[path] = Fragment(names, tuple(rows))
        return self._known[path]


def _plain(value: Value) -> Value:
    """As the model has it: a column of which the first files told no type is one of texts."""
    return int(value) if isinstance(value, str) and value.isdecimal() else value


class SparkWorld(World):
    """`spark` outlives it."""

    def __init__(self, home: Path, spark: SparkSession, fewest: int) -> None:
        self._spark = spark
        super().__init__(home, None, fewest=fewest)

    def _lake(self) -> Lake:
        return LocalObjects(self.home / "lake")

    def _engine(self) -> Engine:
        (self.home / "lake").mkdir(parents=True)
        executor = Executor(self._spark, LocalLake(self.home / "lake"), self.home / "scratch")
        return SparkEngine(
            self.ctx,
            self.lake,
            self.canonical,
            self._listed,
            plain=self.plain,
            at_once=CLAIMERS,
            executor=executor,
        )

    def _seen(self, dataset: str, read: Read, files: model.Folder) -> model.Seen:
        """Spark finds no number in a column without a value."""
        return model.seen_of(files, self._pinned(dataset, read), read.null)

    def close(self) -> None:
        assert isinstance(self.engine, SparkEngine)
        assert self.engine.executor is not None
        self.engine.executor.close()
        super().close()

    def _check_truth(self, truth: Mapping[str, Dataset]) -> None:
        super()._check_truth(truth)
        with self.store.read() as tx, duckdb.connect() as database:
            database.execute("SET default_null_order = 'nulls_first'")
            for dataset in _in_order(self.flows, truth):
                component = model.everything(self.flows)[dataset]
                if isinstance(component, Fold):
                    _compute_fold(database, dataset, component, truth)
                else:
                    _compute(database, dataset, component, truth[dataset])
                self._compare(tx, database, dataset)

    def _compare(self, tx: Tx, database: duckdb.DuckDBPyConnection, dataset: str) -> None:
        """The dataset's rows and those that DuckDB has computed from scratch."""
        state = tx.states.newest(BRANCH)[dataset]
        columns = [f["name"] for f in state.schema["fields"]]
        found = Counter(
            row for _, f in self._partitions(tx, state) for row in f.under(tuple(columns))
        )
        names = ", ".join(f'"{c}"' for c in columns)
        wanted = Counter[Row](database.execute(f"SELECT {names} FROM {dataset}").fetchall())
        require(found == wanted, dataset, "holds", found, "and DuckDB says", wanted)


def _in_order(flows: model.Flows, datasets: Mapping[str, Dataset]) -> list[str]:
    """Inputs first."""
    components, found = model.everything(flows), dict[str, None]()

    def visit(name: str) -> None:
        for above in model.inputs_of(name, components[name]).values():
            visit(above)
        found.setdefault(name)

    for name in datasets:
        visit(name)
    return [name for name in found if name in datasets]


def _compute(
    database: duckdb.DuckDBPyConnection, dataset: str, component: Component, truth: Dataset
) -> None:
    """A table of this dataset from those that are there; what was read, from the model."""
    flow = dataset.split(".")[0]
    database.execute(f"CREATE SCHEMA IF NOT EXISTS {flow}")
    if isinstance(component, Read):
        columns = ", ".join(
            f'"{c}" {"VARCHAR" if c.startswith("s") else "BIGINT"}' for c in truth.columns
        )
        database.execute(f"CREATE TABLE {dataset} ({columns})")
        marks = ", ".join("?" * len(truth.columns))
        if rows := truth.rows():
            database.executemany(f"INSERT INTO {dataset} VALUES ({marks})", rows)
        return
    assert not isinstance(component, model.Copy)
    database.execute(f"USE {flow}")
    database.execute(f"CREATE TABLE {dataset} AS {_text(component)}")


def _compute_fold(
    database: duckdb.DuckDBPyConnection, dataset: str, component: Fold, truth: Mapping[str, Dataset]
) -> None:
    """A table of this dataset from the partitions of the one that it follows, one after the
    other."""
    flow = dataset.split(".")[0]
    source = truth[f"{flow}.{component.source}"]
    database.execute(
        "CREATE OR REPLACE SCHEMA fold; USE fold; CREATE TABLE self (k BIGINT, v BIGINT)"
    )
    database.execute(
        f"CREATE SCHEMA IF NOT EXISTS {flow}; CREATE TABLE {dataset} (k BIGINT, v BIGINT)"
    )
    for key in sorted(source.partitions):
        database.execute(f"CREATE OR REPLACE TABLE {component.source} (k BIGINT, v BIGINT)")
        if rows := list(source.partitions[key].under(("k", "v"))):
            database.executemany(f"INSERT INTO {component.source} VALUES (?, ?)", rows)
        database.execute(
            f"CREATE TABLE next AS {_text(component)}; DROP TABLE self; ALTER TABLE next RENAME TO self"
        )
        database.execute(f"INSERT INTO {dataset} SELECT k, v FROM self")
    database.execute(f"USE {flow}; DROP SCHEMA fold CASCADE")


def _text(component: model.Transform) -> str:
    text = component.plain if isinstance(component, Script) else component.sql
    for name, value in model.params_of(component).items():
        text = text.replace(f":{name}", str(value))
    return text


class SparkChanges(Richer):
    """With types declared, for Spark has no other way to tell them, and without folds, which have
    runs of their own (`SparkFolds`)."""

    def _transform(self, one: str, two: str) -> Transform:
        found = super()._transform(one, two)
        return self._transform(one, two) if isinstance(found, Fold) else found

    def _read(self) -> Read:
        return replace(super()._read(), declared=TYPED)

    def _other_read(self, read: Read) -> Read:
        return replace(super()._other_read(read), declared=TYPED)


class SparkFolds(SparkChanges):
    """Partitions that build on each other, to begin with."""

    def begin(self) -> None:
        self.begin_with_folds()


def run(seed: int, spark: SparkSession | None, draw: type[SparkChanges] = SparkChanges) -> None:
    """A random dataflow, and a few settles with some random events before each. Every third run is
    full of faults.

    Without Spark, the same on the fake engine: to look for seeds.
    """
    with new_sessions_with(spark, INTERPRETED) if spark else nullcontext():
        _run(seed, spark, draw)


def _run(seed: int, spark: SparkSession | None, draw: type[SparkChanges]) -> None:
    home = Path(tempfile.mkdtemp(prefix="headgate-oracle-"))
    fewest = 2 if seed % 2 else FEWEST  # every other one in parts, where these can be merged
    world = SparkWorld(home, spark, fewest) if spark else World(home, fewest=fewest)
    changes = draw(seed, world)
    faults = changes.faults if seed % 3 == 0 else lambda: no_faults
    try:
        changes.begin()
        world.settle(faults())
        for _ in range(SETTLES):
            for _ in range(changes.chance.randint(4, 7)):
                changes.step()
            world.settle(faults())
        if list(changes.mend()):
            world.settle(faults())
    except Exception as e:
        kind = " folds" if draw is SparkFolds else ""
        e.add_note(
            f"after {', '.join(changes.told)}\nreplay: python -m tests.spark.oracle {seed}{kind}"
        )
        raise
    finally:
        world.close()
        shutil.rmtree(home)


def main(seeds: list[str]) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        spark = start(Path(scratch), {"spark.log.level": "OFF", "spark.driver.memory": "1g"})
        try:
            draw = SparkFolds if "folds" in seeds else SparkChanges
            for seed in (s for s in seeds if s != "folds"):
                run(int(seed), spark, draw)
        finally:
            stop(spark)


if __name__ == "__main__":
    main(sys.argv[1:])

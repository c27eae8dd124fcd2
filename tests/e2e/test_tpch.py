"""TPC-H on real Spark: its 22 queries, and two datasets in parts, while months come late, are
corrected and withdrawn.

Each settle is held against DuckDB from scratch over the files that are there, and the tasks that
ran against the modes that `plan` tells. Does not belong here: which modes a query should have
(unit/sql), how long it takes (benchmarks).
"""

from __future__ import annotations

import hashlib
import json
import shutil
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from controlplane import settings
from controlplane.bootstrap import Server
from controlplane.cli import once, sources
from tests import tpch
from tests.e2e.conftest import closing
from tests.e2e.tables import by_deltalake
from tests.e2e.workspace import Json, Run, Workspace
from tests.slices import in_turn, sliced

# Takes turns with orders and stories of S3: which modes each query has, and that its parts come
# together to the whole, is tested in unit/sql and spark/test_parts.
pytestmark = in_turn(5, 8)

SCALE = 0.1
MONTHS = ("1993-08", "1994-05", "1995-09")  # within the periods that most queries ask for
LARGE = """  -- some lines of every month
    SELECT l_orderkey, l_shipdate, l_extendedprice * (1 - l_discount) AS volume
    FROM lineitem WHERE l_quantity > 40 AND l_discount = 0.07 OR l_shipdate > date '1998-11-30'"""
MONTHLY = "SELECT l_shipdate, sum(volume) AS revenue, count(*) AS n FROM large GROUP BY l_shipdate"

Files = Mapping[str, Mapping[str, str]]  # digests of contents by table and name


def blueprint() -> str:
    parts = {
        "large": {"transform": {"sql": LARGE}},
        "monthly": {"transform": {"sql": MONTHLY, "partition_by": [{"l_shipdate": "month"}]}},
    }
    return json.dumps({"dataflow": "tpch", "components": tpch.components(SCALE) | parts})


@dataclass
class Thrift:
    """Counts work that is needed and was never done, by the `modes` that `plan` tells, inputs
    first.

    `beside`: the other inputs of queries in parts, as they were last time.
    """

    modes: Mapping[str, Json]
    done: set[object] = field(default_factory=set)
    beside: dict[str, object] = field(default_factory=dict)

    def needed(self, files: Files) -> int:
        keys = set[object](
            ("parse", digest) for table in files.values() for digest in table.values()
        )
        datasets = dict(files)
        for name, inputs in self.modes.items():
            modes = [slot["mode"] for slot in inputs.values()]
            if modes in (["each"], ["by"]):  # shipping months are files: a key lies in one of them
                (parts,) = (datasets[i] for i in inputs)
                datasets[name] = {part: f"{name} of {digest}" for part, digest in parts.items()}
                keys |= {
                    *datasets[name].values(),
                    *(f"index of {d}" for d in parts.values() if modes == ["by"]),
                }
            elif inputs:
                keys |= self._whole(name, {i: frozenset(datasets[i].values()) for i in inputs})
        count = len(keys - self.done)
        self.done |= keys
        return count

    def _whole(self, name: str, inputs: Mapping[str, frozenset[str]]) -> set[object]:
        """A query over everything; in parts of the longest input that can be merged, while others
        stay as they were."""
        whole = (name, tuple(inputs.items()))
        cut = next(
            (t for t in ("lineitem", "orders") if t in inputs and self._is_mergeable(name, t)), None
        )
        others = tuple(files for table, files in inputs.items() if table != cut)
        before, self.beside[name] = self.beside.get(name, others), others
        if cut is None or whole in self.done or before != others:
            return {whole}
        return {whole, *((name, part, others) for part in inputs[cut])}

    def _is_mergeable(self, name: str, table: str) -> bool:
        return "decomposable" in self.modes[name][table]["reason"]


@dataclass
class Story:
    """A control plane in this process, with a worker and a driver of its own that stay warm."""

    workspace: Workspace
    server: Server
    source: Path
    thrift: Thrift

    @property
    def data(self) -> Path:
        return self.workspace.folder / "data"

    def deliver(self, table: str, month: str) -> None:
        shutil.copy(self.source / table / f"{month}.parquet", self.data / table)

    def correct(self, table: str, month: str) -> None:
        tpch.correct(self.data / table / f"{month}.parquet")

    def withdraw(self, table: str, month: str) -> None:
        (self.data / table / f"{month}.parquet").unlink()

    def files(self) -> Files:
        return {
            t: {
                f.stem: hashlib.sha256(f.read_bytes()).hexdigest()
                for f in (self.data / t).iterdir()
            }
            for t in tpch.TABLES
        }

    def settle(self) -> None:
        """A run, which does what is needed, and after which every answer is as it is from
        scratch."""
        texts = sources.load([self.workspace.folder / "tpch.yaml"])
        run = Run(
            once.make(self.server, once.RunRequest(texts), lambda _: None, since=time.monotonic())
        )
        run.assert_up_to_date()
        self.assert_true()
        assert run.executed == self.thrift.needed(self.files())
        self.workspace.assert_tidy()

    def assert_true(self) -> None:
        answers = tpch.Answers(self.data)
        answers.view("large", LARGE)
        for name, text in {**tpch.queries(SCALE), "large": LARGE, "monthly": MONTHLY}.items():
            found = by_deltalake(self.workspace.lake / "default" / "tpch" / name)
            tpch.assert_same(name, found.to_pylist(), answers.rows(text))
        answers.close()


@pytest.fixture(scope="module")
def story(module_folder: Path) -> Iterator[Story]:
    source = tpch.data(SCALE)
    with closing(Workspace(module_folder / "tpch")) as workspace:
        workspace.write("tpch.yaml", blueprint())
        # No data is there yet
        items = workspace.ask("plan", "tpch.yaml", "--no-refresh", "--no-spark")["items"]
        thrift = Thrift({i["dataset"].partition(".")[2]: i["modes"] for i in items})
        with Server(settings.read(workspace.home), "run") as server:
            story = Story(workspace, server, source, thrift)
            shutil.copytree(source, story.data)
            for table in tpch.MONTH_OF:
                story.withdraw(table, MONTHS[0])
            yield story


def test_modes(story: Story) -> None:
    modes = {
        name: {i: slot["mode"] for i, slot in inputs.items()}
        for name, inputs in story.thrift.modes.items()
    }
    assert (modes["large"], modes["monthly"]) == ({"lineitem": "each"}, {"large": "by"})
    assert len([n for n in modes if n.startswith("q")]) == 22


def test_all_answers_from_nothing(story: Story) -> None:
    story.settle()


# Of either table months come, change and go by the same rules; only the queries that they concern
# differ.
FIRST_TURNS = sliced([pytest.param("lineitem", 0), pytest.param("orders", 0)], 2)
TURNS = [*FIRST_TURNS, *(pytest.param("lineitem", turn, marks=pytest.mark.soak) for turn in (1, 2))]


@pytest.mark.parametrize(("table", "turn"), TURNS)
def test_a_month_is_late_one_is_corrected_and_one_withdrawn(
    story: Story, table: str, turn: int
) -> None:
    """The three months in turn; of one table at a time, for queries over both would not wait for
    the other's files."""
    late, corrected, withdrawn = (MONTHS[(place - turn) % 3] for place in range(3))
    story.deliver(table, late)
    story.correct(table, corrected)
    story.withdraw(table, withdrawn)
    story.settle()


@pytest.mark.soak
def test_every_month(story: Story) -> None:
    story.settle()
    for table in sorted(tpch.MONTH_OF):
        for month in sorted(story.files()[table]):
            story.correct(table, month)
            story.settle()
            story.withdraw(table, month)
            story.settle()
            story.deliver(table, month)
            story.settle()

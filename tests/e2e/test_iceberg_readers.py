"""Readers of Iceberg read what a service has: equal rows, whatever they read. They live in an
environment of their own: what they need and what we need do not have to agree."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from controlplane.core.model.branches import Branch
from controlplane.core.rights import TokenScope
from controlplane.operations.desired import tokens
from dataplane.spark.wheels import installed
from tests.rows_of_types import SCHEMA, all_columns
from tests.slices import in_turn
from tests.unit.lake.tables import struct
from tests.unit.records.conftest import order
from tests.unit.records.world import RecordWorld, served

# Takes turns with the client of Delta Sharing: what the catalogue answers is asked of unit/iceberg.
pytestmark = in_turn(0, 2)

TESTS = Path(__file__).parent.parent
READERS = ("pyiceberg", "polars", "duckdb")
EACH = ("pyiceberg", "duckdb", pytest.param("polars", marks=pytest.mark.soak))
"""polars reads metadata by pyiceberg."""
EMPTIED = {"structs", "pairs"}
"""pyiceberg 0.12 reads NULL in columns of lists and maps that hold structs as an empty one."""


def days(*keys: int) -> dict[str, list[Any]]:
    return {f"day=2013-01-{key:02}": [order(key)] for key in keys}


def plain(value: Any) -> Any:
    """As the reader's process tells it."""
    if isinstance(value, dict):
        return {name: plain(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [plain(inner) for inner in value]
    if isinstance(value, bytes):
        return value.hex()
    return value if value is None or isinstance(value, bool | int | str) else str(value)


def requests() -> dict[str, dict[str, Any]]:
    """By label: reader, space, subject."""
    subjects: dict[str, dict[str, Any]] = {
        "hard": {"table": "shop.hard"},
        "newest": {"table": "shop.orders"},
        "snapshot": {"table": "shop.orders", "snapshot": 1},
        "generation": {"table": "shop.orders@1"},
        "time": {"table": "shop.orders", "warehouse": "main@20251125T120030Z"},
        "branch": {"table": "shop.orders", "warehouse": "dev"},
        "moved": {"table": "shop.moved"},
        "filter": {"table": "shop.orders", "filter": "k > 2"},
        "forbidden": {"table": "shop.orders", "token": "narrow"},
    }
    every = {
        f"{reader} {subject}": {"by": reader, "warehouse": "main", **request}
        for reader in READERS
        for subject, request in subjects.items()
    }
    del every["polars filter"]
    as_planned = {"by": "pyiceberg", "warehouse": "main", "table": "shop.orders", "mode": "server"}
    every["pyiceberg planned"] = {**as_planned, "filter": "k > 2 and day < '2013-01-04'"}
    every["pyiceberg at"] = {**as_planned, "at": 1_764_072_030_000}
    ends = ["count(*) AS n", "max(instant) AS last", "min(price) AS least"]
    every["duckdb ends"] = {"by": "duckdb", "warehouse": "main", "table": "shop.hard"}
    every["duckdb ends"]["columns"] = ends
    return every


class Answers(dict[str, Any]):
    """By label of a request. One process reads all of a reader, at the first of them."""

    def __init__(self, read: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
        super().__init__()
        self._read = read

    def __missing__(self, label: str) -> Any:
        by = requests()[label]["by"]
        self.update(
            self._read({name: sent for name, sent in requests().items() if sent["by"] == by})
        )
        return self[label]


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    clients = installed(TESTS / "readers.requirements")
    world = RecordWorld(tmp_path_factory.mktemp("iceberg"))
    world.commit({"": all_columns()}, "shop.hard", schema=SCHEMA)
    world.commit({"": [{"a": 1, "b": "x"}]}, "shop.moved", schema=struct(a="integer", b="string"))
    world.commit(
        {"": [{"b": "x", "a": 2**40, "c": 1.5}]},
        "shop.moved",
        schema=struct(b="string", a="long", c="double"),
    )
    world.commit(days(1, 3))
    world.now += 60
    world.commit(days(1, 2, 3, 4))  # a late file
    with world.store.begin() as tx:
        tx.branches.create(Branch(name="dev", source="main", at=tx.now(), actor="ann"))
    world.commit(days(9), branch="dev")
    narrow, _ = tokens.create(
        world.ctx, "bob", ("data",), within=TokenScope(datasets=("shop.hard",))
    )
    with served(world) as place:
        environ = {**os.environ, "PYTHONPATH": str(clients), "NO_PROXY": "*", "no_proxy": "*"}
        script = [sys.executable, "-S", str(TESTS / "iceberg_reader.py"), f"{place.url}/iceberg"]

        def read_all(some: dict[str, Any]) -> dict[str, Any]:
            sent = {
                label: {**request, "token": narrow if "token" in request else place.token}
                for label, request in some.items()
            }
            done = subprocess.run(
                [*script, json.dumps(sent)],
                env=environ,
                capture_output=True,
                text=True,
                timeout=300,
                check=False,
            )
            assert done.returncode == 0, done.stderr
            answers: dict[str, Any] = json.loads(done.stdout)
            return answers

        yield Answers(read_all)


def read(answers: dict[str, Any], label: str) -> Any:
    answer = answers[label]
    assert "error" not in answer, answer["error"]
    return answer["rows"]


def keys(answers: dict[str, Any], label: str) -> list[int]:
    return sorted(row["k"] for row in read(answers, label))


@pytest.mark.parametrize("reader", EACH)
def test_rows_of_hard_types_are_equal(answers: dict[str, Any], reader: str) -> None:
    expected = all_columns()
    if reader == "pyiceberg":
        expected[-1].update({column: [] for column in EMPTIED})
    assert read(answers, f"{reader} hard") == plain(expected)


@pytest.mark.parametrize("reader", EACH)
def test_generations_times_and_branches_are_read(answers: dict[str, Any], reader: str) -> None:
    assert read(answers, f"{reader} newest") == plain([order(key) for key in (1, 2, 3, 4)])
    for subject in ("snapshot", "generation", "time"):
        assert keys(answers, f"{reader} {subject}") == [1, 3], subject
    assert keys(answers, f"{reader} branch") == [9]


@pytest.mark.parametrize("reader", EACH)
def test_columns_are_found_after_a_change(answers: dict[str, Any], reader: str) -> None:
    assert read(answers, f"{reader} moved") == plain([{"b": "x", "a": 2**40, "c": 1.5}])


@pytest.mark.parametrize("reader", EACH)
def test_a_token_reads_what_it_may(answers: dict[str, Any], reader: str) -> None:
    error = answers[f"{reader} forbidden"]["error"]
    assert "may not read" in error or "Forbidden" in error or "403" in error


def test_files_without_such_rows_are_not_planned(answers: dict[str, Any]) -> None:
    """By the statistics in manifests, and by those of the service."""
    for label, expected in (("filter", [3, 4]), ("planned", [3])):
        assert keys(answers, f"pyiceberg {label}") == expected
        assert answers[f"pyiceberg {label}"]["files"] == len(expected)
        assert answers[f"pyiceberg {label}"]["count"] == len(expected)
    assert keys(answers, "duckdb filter") == [3, 4]
    assert keys(answers, "pyiceberg at") == [1, 3]


def test_ends_are_those_of_rows_and_not_of_statistics(answers: dict[str, Any]) -> None:
    """Noted bounds of times are whole milliseconds."""
    (row,) = read(answers, "duckdb ends")
    assert row == {"n": 3, "last": "2025-01-01 12:00:00.123456+00:00", "least": "-99.99"}

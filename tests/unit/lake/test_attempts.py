"""An attempt without Spark: nothing of it imports pyspark, and it measures the fragments that it
wrote."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import cast

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dataplane.contract import sketches
from dataplane.contract.claims import ParseClaim
from dataplane.contract.identity import Content
from dataplane.contract.schemas import Schema
from dataplane.fragments.attempt import Attempt
from dataplane.fragments.content_local import content
from dataplane.fragments.measuring import FEW_BYTES, MeasuredRows, is_read_back, measure
from dataplane.fragments.written import MeasuredFile, Written
from dataplane.storage.lake import LocalLake
from dataplane.task_failures import TaskFailure
from tests.unit.lake.memory import peak_bytes
from tests.unit.lake.tables import struct

REPOSITORY = Path(__file__).parents[3]
WITHOUT_SPARK = ("fragments", "storage", "listing", "query", "contract", "lakes")
IMPORTS = """
import sys
from importlib import import_module
for name in sys.argv[1:]:
    import_module(name)
    assert not {"pyspark", "py4j"} & sys.modules.keys(), name
"""


def modules() -> list[str]:
    """All modules of these packages; `fragments.spark` is for Spark."""
    files = (
        file
        for package in WITHOUT_SPARK
        for file in (REPOSITORY / "dataplane" / package).glob("*.py")
    )
    runnable = (file for file in files if file.stem not in ("__init__", "__main__"))
    return [
        ".".join(file.relative_to(REPOSITORY).with_suffix("").parts) for file in sorted(runnable)
    ]


def test_modules_without_spark_import_no_pyspark() -> None:
    names = modules()
    assert {"dataplane.fragments.attempt", "dataplane.fragments.measuring"} <= set(names)
    done = subprocess.run(
        [sys.executable, "-c", IMPORTS, *names], capture_output=True, text=True, cwd=REPOSITORY
    )
    assert done.returncode == 0, done.stderr[-500:]


@pytest.fixture
def attempt(tmp_path: Path) -> Attempt[ParseClaim]:
    claim = cast(
        "ParseClaim", {"kind": "parse", "attempt": "a", "prefix": "f/a", "job": {}, "tasks": []}
    )
    (tmp_path / "lake/f/a").mkdir(parents=True)
    lake = LocalLake(tmp_path / "lake")
    return Attempt(claim, lake, tmp_path / "scratch", ThreadPoolExecutor(2), threading.Event())


@pytest.fixture(params=["off", "full"])
def mode(request: pytest.FixtureRequest, attempt: Attempt[ParseClaim]) -> str:
    attempt.claim["job"]["profile"] = request.param
    return str(request.param)


def written(attempt: Attempt[ParseClaim], schema: Schema, table: pa.Table) -> Written:
    path = f"{attempt.prefix}/{len(table)}.parquet"
    pq.write_table(table, attempt.lake.place(path), write_page_checksum=True, store_schema=False)
    return Written(schema, {path: Path(attempt.lake.place(path)).stat().st_size})


def never(
    schema: Schema, files: Mapping[str, Sequence[MeasuredFile]], with_sample: bool
) -> dict[str, MeasuredRows]:
    raise AssertionError(f"{list(files)} of {schema} are hashed in memory")


def test_few_rows_are_measured_in_memory(attempt: Attempt[ParseClaim]) -> None:
    schema = struct(a="long", b="string")
    table = pa.table({"a": [1, 2, None], "b": ["x", "", None]})
    fragments = measure(
        attempt, {"full": written(attempt, schema, table), "no-rows": Written(schema)}, never
    )
    assert fragments["full"].content == content(schema, table)
    assert [file["rows"] for file in fragments["full"].files] == [3]
    assert (fragments["no-rows"].files, fragments["no-rows"].content) == ((), Content(0, 0, 0))


def test_other_rows_are_hashed_by_the_caller(attempt: Attempt[ParseClaim]) -> None:
    schema = struct(
        a={"type": "map", "keyType": "string", "valueType": "long", "valueContainsNull": True}
    )
    table = pa.table({"a": pa.array([[("k", 1)], None], pa.map_(pa.string(), pa.int64()))})
    sums = Content(2, 5, 7)
    fragments = measure(
        attempt, {"m": written(attempt, schema, table)}, lambda *_: {"m": MeasuredRows(sums)}
    )
    assert fragments["m"].content == sums
    with pytest.raises(OSError, match="2 rows in the footers of fragment m, 1 were read"):
        measure(
            attempt,
            {"m": written(attempt, schema, table)},
            lambda *_: {"m": MeasuredRows(Content(1, 5, 7))},
        )


def test_rows_that_take_much_more_in_memory_are_read_in_parts(
    attempt: Attempt[ParseClaim], mode: str
) -> None:
    """Each row has one long text, which stands in a dictionary: a gigabyte in a small file."""
    text, count = "x" * 400_000, 3_000
    table = pa.table({"a": pa.DictionaryArray.from_arrays(pa.array([0] * count), pa.array([text]))})
    sums = Content(count, 1, 2)
    file = written(attempt, struct(a="string"), table)
    with peak_bytes() as memory:
        fragment = measure(attempt, {"m": file}, lambda *_: {"m": MeasuredRows(sums)})["m"]
    assert (fragment.content, sum(file.files.values()) < 100_000) == (sums, True)
    assert memory.peak < 3 * FEW_BYTES
    if mode == "full":
        assert fragment.profile is not None
        sample = fragment.profile["sample"]
        assert sample["values"]["a"] == [[text[:64], len(text)]] * len(sample["marks"])
        assert len(sample["marks"]) > 100
        assert sketches.count(fragment.profile["columns"]["a"]["distinct"]) == 1


# --- contents that were observed ------------------------------------------------------------------

MANY = pa.table({"a": pa.array(range(300_000), pa.int64())})
LONGS = struct(a="long")


def observed(attempt: Attempt[ParseClaim], table: pa.Table = MANY) -> Written:
    return replace(written(attempt, LONGS, MANY), observed=content(LONGS, table))


def test_observed_contents_are_not_read_back(attempt: Attempt[ParseClaim], mode: str) -> None:
    fragment = measure(attempt, {"m": observed(attempt)}, never)["m"]
    assert fragment.content == content(LONGS, MANY)
    assert (fragment.profile is None) == (mode == "off")


def test_other_numbers_of_rows_are_read_back(attempt: Attempt[ParseClaim], mode: str) -> None:
    """Spark observed rows twice, or not all of them."""
    sums = content(LONGS, MANY)
    assert sums is not None
    fragments = measure(
        attempt, {"m": observed(attempt, MANY.slice(1))}, lambda *_: {"m": MeasuredRows(sums)}
    )
    assert fragments["m"].content == sums


@pytest.mark.usefixtures("mode")
@pytest.mark.parametrize("position", [30, -20_000, -5, None])
def test_damaged_files_are_no_result(attempt: Attempt[ParseClaim], position: int | None) -> None:
    """A byte of a page or of the footer differs; without a position, the end is missing."""
    fragment = observed(attempt)
    [path] = fragment.files
    file = Path(attempt.lake.place(path))
    data = bytearray(file.read_bytes())
    if position is None:
        del data[-100_000:]
    else:
        data[position] ^= 0xFF
    file.write_bytes(data)
    with pytest.raises((OSError, pa.ArrowInvalid, TaskFailure)):
        measure(attempt, {"m": fragment}, never)


def test_some_fragments_are_read_back_and_have_the_rows_that_were_written(
    attempt: Attempt[ParseClaim], mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADGATE_READ_BACK", "1")
    sums, others = content(LONGS, MANY), Content(len(MANY), 5, 7)
    assert sums is not None
    measure(attempt, {"m": observed(attempt)}, lambda *_: {"m": MeasuredRows(sums)})
    with pytest.raises(OSError, match="fragment m has other rows than were written"):
        measure(attempt, {"m": observed(attempt)}, lambda *_: {"m": MeasuredRows(others)})


def test_one_of_a_hundred_fragments_is_read_back(monkeypatch: pytest.MonkeyPatch) -> None:
    labels = [f"{i:032x}" for i in range(10_000)]
    chosen = [label for label in labels if is_read_back("a", label)]
    assert 70 <= len(chosen) <= 130
    assert chosen == [label for label in labels if is_read_back("a", label)]
    assert chosen != [label for label in labels if is_read_back("b", label)]
    for text in ("0", "-1", "all", "1.5", "٣"):
        monkeypatch.setenv("HEADGATE_READ_BACK", text)
        with pytest.raises(TaskFailure, match="HEADGATE_READ_BACK is a number from 1 up"):
            is_read_back("a", "b")

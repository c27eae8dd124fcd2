"""A listing ends: by what it looks at, by time, and by what it holds in memory."""

from __future__ import annotations

import gzip
import io
import json
import os
from pathlib import Path
from typing import Any, cast

import pytest

from dataplane.connectors.python.python_listing import objects_of
from dataplane.contract.jobs import ListJob
from dataplane.listing.bounds import ListingBounds
from dataplane.listing.file_columns import LONGEST_RECORD, MOST_COLUMNS, MOST_JSON, own_columns
from dataplane.listing.files import list_files
from dataplane.listing.glob import find
from dataplane.listing.version_cache import FileReading, Versions, examine
from dataplane.task_failures import TaskFailure


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 1.0
        return self.now


def test_a_walk_ends_at_the_entries_that_it_may_look_at(tmp_path: Path) -> None:
    """What the glob does not want counts, too."""
    for i in range(50):
        (tmp_path / f"{i}.txt").touch()
    bounds = ListingBounds(most=20)
    with pytest.raises(TaskFailure) as told:
        list(find(f"{tmp_path}/**/*.csv", f"{tmp_path}/", bounds.count))
    assert (told.value.condition, bounds.entries) == ("listing-too-large", 21)


def test_a_listing_ends_when_its_time_is_over() -> None:
    bounds = ListingBounds(timeout_s=0.5, monotonic=Clock())
    with pytest.raises(TaskFailure) as told:
        bounds.count(100_000)
    assert (told.value.condition, told.value.kind) == ("listing-too-long", "infrastructure")


def job_of(**known: Any) -> ListJob:
    return cast("ListJob", known)


def test_the_operator_says_how_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADGATE_LISTING_TIMEOUT", "0")
    (tmp_path / "x.csv").touch()
    with pytest.raises(TaskFailure, match="HEADGATE_LISTING_TIMEOUT"):
        list_files(
            job_of(location=f"{tmp_path}/*", format="csv", options={}, partition=None), Versions()
        )


# --- heads of files -------------------------------------------------------------------------------


class Counted(io.BytesIO):
    """How many bytes were taken of a file."""

    taken = 0

    def read(self, size: int | None = -1, /) -> bytes:
        found = super().read(size)
        self.taken += len(found)
        return found

    def read1(self, size: int | None = -1, /) -> bytes:
        found = super().read1(-1 if size is None else size)
        self.taken += len(found)
        return found


def test_of_one_long_line_of_json_no_more_is_read_than_of_a_record() -> None:
    file = Counted(b'{"a": "' + b"x" * (3 * LONGEST_RECORD) + b'"}')
    assert own_columns(file, "x.json", "json", {}) is None
    assert file.taken < 1.1 * LONGEST_RECORD


def test_of_blank_lines_before_a_header_no_more_is_read_than_is_worth_it() -> None:
    line = b" " * 999_999 + b"\n"
    bomb = Counted(gzip.compress(line * (2 * MOST_JSON // len(line)), 1))
    assert not own_columns(bomb, "x.csv.gz", "csv", {"header": True})
    assert bomb.taken < 0.6 * len(bomb.getvalue())


@pytest.mark.parametrize("kind", ["json", "csv"])
def test_a_file_of_more_columns_than_a_driver_could_hold_is_an_error(kind: str) -> None:
    text = (
        "\n".join(json.dumps({f"k{i}": 1}) for i in range(MOST_COLUMNS + 1))
        if kind == "json"
        else ",".join(map(str, range(MOST_COLUMNS + 1)))
    )
    with pytest.raises(TaskFailure) as told:
        own_columns(io.BytesIO(text.encode()), f"x.{kind}", kind, {})
    assert (told.value.condition, told.value.file) == ("too-many-columns", f"x.{kind}")


# --- what is no file ------------------------------------------------------------------------------


def test_a_fifo_that_takes_a_files_place_does_not_hold_the_worker(tmp_path: Path) -> None:
    """As if it were put there between a look and the opening."""
    os.mkfifo(tmp_path / "x.csv")
    with pytest.raises(TaskFailure) as told:
        examine(str(tmp_path / "x.csv"), FileReading("csv", {}))
    assert told.value.condition == "not-a-file"


# --- users' code ----------------------------------------------------------------------------------


def test_code_that_lists_without_end_ends() -> None:
    code = (
        "def list(context):\n    i = 0\n    while True:\n        i += 1\n"
        "        yield {'name': str(i), 'version': 1}\n"
    )
    settings = {"params": "{}", "modules": json.dumps({"m.py": code}), "main": "m.py"}
    with pytest.raises(TaskFailure) as told:
        list(objects_of(job_of(settings=settings), ListingBounds(most=1_000)))
    assert told.value.condition == "listing-too-large"

"""Files of a label through links: one link where they are all of a folder, and exactly their rows
where they are not.

Does not belong here: names that users choose (test_parse).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pyarrow.parquet
import pytest

from dataplane.contract.claims import TransformClaim
from dataplane.fragments.spark.reading import labelled_rows
from tests.spark.conftest import Lake, failed, label, query, schema_of

INT = pa.schema([("a", pa.int32())])
FIRST, SECOND = "given/_fragment=1", "given/_fragment=2"


def add(lake: Lake, *paths: str) -> list[str]:
    """Files with a row each, whose number is their place; their paths."""
    for number, path in enumerate(paths):
        file = lake.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        pyarrow.parquet.write_table(pa.table({"a": [number]}, INT), file)
    return list(paths)


def batch(lake: Lake, *partitions: list[str]) -> list[Any]:
    """Results of partitions that one job reads."""
    schema = schema_of(lake.spark, "a INT")
    inputs = {"t": {"view": "v", "mode": "each", "schema": schema}}
    texts = {"batch_sql": "SELECT v.a, v._fragment FROM v", "batch_input": "t"}
    job = query("SELECT a FROM v", inputs=inputs, **texts)
    return lake.run("transform", job, [{"slots": {"t": files}} for files in partitions])


def test_each_partition_and_each_result_is_read_through_one_link(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dataplane.fragments.measuring.FEW_VALUES", 0)  # Spark reads results, too
    links: list[tuple[str, str]] = []

    def note(target: str, alias: str, link: Callable[[str, str], None] = os.symlink) -> None:
        links.append((Path(target).name, Path(alias).name))
        link(target, alias)

    monkeypatch.setattr(os, "symlink", note)
    partitions = [
        add(lake, f"{FIRST}/0.parquet", f"{FIRST}/1.parquet"),
        add(lake, f"{SECOND}/0.parquet"),
    ]
    results = batch(lake, *partitions)
    assert [len(lake.rows(result)) for result in results] == [2, 1], "links went, files stayed"
    assert all((lake.root / path).exists() for files in partitions for path in files)
    aliases = [f"_fragment={label(number)}" for number in (0, 1)]
    of_inputs = list(zip(["_fragment=1", "_fragment=2"], aliases, strict=True))
    of_results = list(zip(aliases, aliases, strict=True))
    assert links == of_inputs + of_results


@pytest.mark.parametrize(
    ("beside", "named"),
    [
        pytest.param([], [0, 1], id="all"),
        pytest.param([], [0], id="not all"),
        pytest.param([], [0, 0, 1], id="one of them twice"),
        pytest.param([f"{SECOND}/0.parquet"], [0, 1, 2], id="two folders"),
        pytest.param([f"{FIRST}/_hidden.parquet"], [0, 1, 2], id="a hidden name"),
        pytest.param([f"{FIRST}/a%20{{b}}:.parquet"], [0, 1, 2], id="signs"),
        pytest.param([f"{FIRST}/c=1/0.parquet"], [0, 1], id="a folder in it"),
        pytest.param([f"{FIRST}/c.parquet/0.parquet"], [0, 1], id="a folder of such a name"),
    ],
)
def test_the_rows_are_those_of_the_files_that_are_named(
    lake: Lake, beside: list[str], named: list[int]
) -> None:
    files = add(lake, f"{FIRST}/0.parquet", f"{FIRST}/1.parquet", *beside)
    claim = cast("TransformClaim", lake.claim("transform", query(""), []))
    with lake.executor.attempt(claim) as attempt:
        labelled = [(files[number], "x") for number in named]
        rows = labelled_rows(attempt, lake.spark, labelled, schema_of(lake.spark, "a INT"))
        assert sorted(rows.collect()) == [(number, "x") for number in named]


def test_an_error_names_the_file_behind_the_link(lake: Lake) -> None:
    broken, sound = add(lake, f"{FIRST}/0.parquet"), add(lake, f"{SECOND}/0.parquet")
    (lake.root / broken[0]).write_bytes(b"PAR1")
    for error in map(failed, batch(lake, broken, sound)):
        assert str(lake.root / broken[0]) in error["detail"]
        assert "links-" not in error["detail"]

"""The answer of `why` as lines for people."""

from __future__ import annotations

import io
from typing import Any, cast

from controlplane.cli import why_views
from controlplane.cli.output import partition_name, show
from controlplane.core.model.answers import WhyAnswer


def node(dataset: str, sentence: str, *inputs: Any, **fields: Any) -> Any:
    return {
        "dataset": dataset,
        "cause": "input",
        "sentence": sentence,
        "pending": False,
        "repeated": False,
        "generation": 2,
        "at": "2026-01-02T03:04:05.678+00:00",
        "count": 0,
        "partitions": [],
        "inputs": list(inputs),
        **fields,
    }


ERROR: Any = {
    "code": "user-error",
    "condition": "CAST",
    "sqlstate": None,
    "message": "no number",
    "file": "f.yaml",
}
FILES = node("f.c", "c/1.csv changed", partitions=["1.csv", "2.csv", "3.csv", "4.csv"], count=9)
ANSWER: Any = {
    "dataset": "f.joined",
    "partition": "1.csv",
    "state": "up_to_date",
    "generation": 2,
    "sentence": "c/1.csv changed",
    "reason": "it is up to date; last change: c/1.csv changed",
    "held_up": None,
    "modes": {"c": {"mode": "each", "reason": "one row-wise scope"}},
    "tree": node(
        "f.joined",
        "its inputs f.b and f.c changed",
        node("f.b", "its input f.c changed", FILES),
        FILES,
    ),
    "stopped": [],
    "sources": [
        {"dataset": "f.c", "location": "/data/c/*.csv", "objects": ["file:///data/c/1.csv"]}
    ],
}


def lines(shows_all: bool = False, **fields: Any) -> list[str]:
    out, answer = io.StringIO(), dict(ANSWER, **fields)
    show({}, why_views.why(cast("WhyAnswer", answer), shows_all=shows_all), "table", out)
    return out.getvalue().splitlines()


def test_the_cause_comes_first_and_then_the_way_down_to_it() -> None:
    files = "f.c: c/1.csv changed; in 1.csv, 2.csv, 3.csv, ... 6 more; generation 2 at 2026-01-02 03:04:05Z"
    assert lines() == [
        "f.joined/1.csv is up_to_date, generation 2",
        "cause: c/1.csv changed",
        "  f.joined: its inputs f.b and f.c changed; generation 2 at 2026-01-02 03:04:05Z",
        "    f.b: its input f.c changed; generation 2 at 2026-01-02 03:04:05Z",
        f"      {files}",
        f"    {files}",
    ]


def test_sources_and_modes_are_told_if_all_is_asked_for() -> None:
    assert lines(shows_all=True)[-2:] == [
        "source: f.c of /data/c/*.csv: file:///data/c/1.csv",
        "reads c each: one row-wise scope",
    ]


def test_a_dataset_that_is_repeated_points_to_its_first_place() -> None:
    tree = node(
        "f.joined",
        "f.joined had never been computed",
        node("f.c", "c/1.csv changed", repeated=True),
    )
    assert lines(tree=tree)[-2:] == [
        "  f.joined had never been computed; generation 2 at 2026-01-02 03:04:05Z",
        "    f.c: c/1.csv changed; see above",
    ]


def test_what_blocks_is_told_with_its_error_and_what_ends_it() -> None:
    held: Any = {
        "dataset": "f.b",
        "state": "failed",
        "sentence": "f.b has failed: no number",
        "at": None,
        "fix": "headgate retry f.b",
        "commands": ["headgate retry f.b"],
    }
    assert lines(state="blocked", held_up={**held, "error": ERROR}, tree=None)[2:] == [
        "held up: f.b has failed: no number",
        "  to go on: headgate retry f.b",
        "error: f.yaml: f.b: CAST",
        "  no number",
    ]


def test_partitions_are_shown_without_escapes() -> None:
    keys = ["place=North%20America", "place=%E2%80%AE", "place=%FF"]
    text = "\n".join(lines(partition=keys[0], tree=node("f.joined", "", partitions=keys, count=4)))
    assert "f.joined/place=North America is up_to_date" in text
    # invisible, and no UTF-8
    assert "in place=North America, place=%E2%80%AE, place=%FF, ... 1 more" in text
    assert partition_name("") == "(whole)"

"""The answer of `lineage` as lines for people."""

from __future__ import annotations

import io
from typing import Any

from controlplane.cli import lineage_views
from controlplane.cli.output import show


def link(
    dataset: str, column: str | None, of_dataset: str, of_column: str | None, *steps: str
) -> Any:
    return {
        "dataset": dataset,
        "column": column,
        "of_dataset": of_dataset,
        "of_column": of_column,
        "steps": list(steps),
    }


def component(dataset: str, kind: str = "sql", location: str | None = None, *reasons: str) -> Any:
    return {
        "dataset": dataset,
        "kind": kind,
        "by": "spark",
        "location": location,
        "over_reported": list(reasons),
    }


def parts(dataset: str, mode: str, *keys: str, **fields: Any) -> Any:
    return {
        "dataset": dataset,
        "mode": mode,
        "generation": 3,
        "revision": 1,
        "partitions": list(keys),
        "count": len(keys),
        "whole": False,
        **fields,
    }


ANSWER: Any = {
    "dataset": "f.total",
    "partition": "k=1",
    "columns": ["t", "u"],
    "direction": "upstream",
    "provenance": {
        "generation": 3,
        "at": "2026-01-02T03:04:05.678+00:00",
        "revision": 2,
        "actor": "ann",
        "logic": "00",
        "attempt": "abc",
        "versions": {"spark": "4.1.2"},
    },
    "components": [component("f.total"), component("f.c", "read", "/data/*.csv", "a reason")],
    "links": [
        link("f.total", "t", "f.part", "v", "AGGREGATION"),
        link("f.total", "u", "f.part", "v", "IDENTITY"),
        link("f.total", None, "f.part", "k", "GROUP_BY"),
        link("f.part", "v", "f.c", "v", "IDENTITY"),
    ],
    "more": 7,
    "partitions": [
        parts("f.total", "subject", "k=1"),
        parts("f.part", "by", "1", "2", "3", "4", "5", count=9),
        parts("f.c", "each", generation=None),
    ],
    "objects": [
        {
            "dataset": "f.c",
            "location": "/data/*.csv",
            "objects": ["/a"],
            "partitions": 3,
            "shown": 2,
            "changed": 1,
        }
    ],
    "notes": ["columns are told by revision 2 of f"],
}


def lines(value: Any) -> list[str]:
    out = io.StringIO()
    show(value, lineage_views.lineage(value), "table", out)
    return out.getvalue().splitlines()


def test_upstream() -> None:
    assert lines(ANSWER) == [
        "f.total/k=1 comes from:",
        "generation 3 at 2026-01-02 03:04:05Z, by revision 2 of ann",
        "written by attempt abc (spark 4.1.2)",
        "columns are told by revision 2 of f",
        "  t",
        "    <- f.part.v (aggregation)",
        "      <- f.c.v (identity) from /data/*.csv",
        "  u",
        "    <- f.part.v (identity); see above",
        "  rows of f.total",
        "    <- f.part.k (group by)",
        "... and 7 more links: --limit shows more, --column fewer",
        "partitions of f.part (by): 1, 2, 3, 4, ... and 5 more",
        "partitions of f.c: not kept any more",
        "objects of f.c: /a, and those of 1 more partitions; 1 partitions have other objects by now",
        "over-reported: f.c: a reason",
    ]


def test_downstream() -> None:
    shown = lines(
        {
            **ANSWER,
            "dataset": "f.c",
            "partition": None,
            "columns": ["v", "unread"],
            "direction": "downstream",
            "provenance": None,
            "links": [
                link("f.part", "v", "f.c", "v", "IDENTITY"),
                link("f.part", None, "f.c", "v", "FILTER"),
                link("f.total", None, "f.part", None),
            ],
            "more": 0,
            "partitions": [parts("f.total", "all", "", whole=True)],
            "objects": [],
            "notes": [],
            "components": [],
        }
    )
    assert shown == [
        "f.c is read by:",
        "  v",
        "    -> f.part.v (identity)",
        "    -> rows of f.part (filter)",
        "      -> rows of f.total",
        "partitions of f.total (all): all 1",
    ]


def test_nothing_is_said_to_be_nothing() -> None:
    nothing: Any = {
        **ANSWER,
        "links": [],
        "partitions": [],
        "objects": [],
        "provenance": None,
        "notes": [],
        "more": 0,
    }
    assert lines(nothing)[0] == "f.total/k=1 comes from nothing that is known"

"""Answers as OpenAPI shows them beside their schemas: one small dataflow, as it stands after a late file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from controlplane.core.model.answers import HistoryAnswer, PartitionsAnswer, PlanAnswer
from controlplane.core.model.answers.datasets import Changes
from controlplane.core.model.answers.explore import (
    GraphAnswer,
    GraphEdge,
    PartitionAnswer,
    RangesAnswer,
    SearchAnswer,
    Wave,
    WaveAnswer,
    WavesAnswer,
)
from controlplane.core.model.answers.plans import PlanCost
from controlplane.core.model.answers.work import AttemptEntry, WorkSummary

AT: Final = "2026-11-24T07:00:12.250+00:00"
LATER: Final = "2026-11-24T07:00:41.900+00:00"
ROOT: Final = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
EARLIER: Final = "60303ae22b998861bce3b28f33eec1be758a213c86c93c076dbe9f558c11c752"
FRAGMENT: Final = "fd61a03af4f77d870fc21e05e7e80678095c92d808cfb3b5c279ee04c74aca13"
ATTEMPT: Final = "4b227777d4dd1fc61c6f884f48641d02"
ONE_NEW: Final[Changes] = {"added": 1, "changed": 0, "removed": 0, "is_all": True}

ATTEMPTED: Final[AttemptEntry] = {
    "attempt": ATTEMPT,
    "dataset": "shop.totals",
    "kind": "transform",
    "partition": "2026-11-24",
    "outcome": "done",
    "tasks": 4,
    "done": 4,
    "failed": 0,
    "driver": "driver-1",
    "queued": AT,
    "began": AT,
    "ended": LATER,
    "seconds": 28.4,
    "waited_s": 1.2,
    "rows": 5200,
    "bytes_written": 91000,
    "bytes_read": 640000,
    "spark_jobs": 4,
    "spark_stages": 8,
    "spark_ui": None,
    "event_log": None,
    "error": None,
}

WORK: Final[WorkSummary] = {
    "attempts": 1,
    "retried": 0,
    "tasks": 4,
    "failed": 0,
    "began": AT,
    "ended": LATER,
    "seconds": 29.65,
    "work_s": 28.4,
    "waited_s": 1.2,
    "rows": 5200,
    "bytes_written": 91000,
    "bytes_read": 640000,
    "spark_jobs": 4,
    "spark_stages": 8,
    "spark_ui": None,
    "event_log": None,
    "slow": None,
    "attempt": ATTEMPT,
}

EDGE: Final[GraphEdge] = {
    "from": "shop.orders",
    "to": "shop.totals",
    "slot": "orders",
    "mode": "each",
    "reason": "each row of the output comes of one row of orders",
}

GRAPH: Final[GraphAnswer] = {
    "branch": "main",
    "dataflow": "shop",
    "around": None,
    "state": "stale",
    "structure": ROOT,
    "nodes": [
        {
            "name": "shop.orders",
            "dataflow": "shop",
            "kind": "read",
            "description": "orders of all shops",
            "tags": ["raw"],
            "owner": "ana",
            "state": "up_to_date",
            "reason": None,
            "generation": 3,
            "partitions": 366,
            "rows": 91500,
            "share": {"done": 366, "to_do": 0, "failed": 0},
            "outside": False,
        },
        {
            "name": "shop.totals",
            "dataflow": "shop",
            "kind": "sql",
            "description": "",
            "tags": [],
            "owner": "ana",
            "state": "stale",
            "reason": None,
            "generation": 2,
            "partitions": 365,
            "rows": 1200,
            "share": {"done": 364, "to_do": 1, "failed": 0},
            "outside": False,
        },
    ],
    "edges": [EDGE],
    "groups": [],
    "group_edges": [],
    "total": 2,
    "more": 0,
}

WAVE: Final[Wave] = {
    "id": "shop.orders:3",
    "at": AT,
    "until": LATER,
    "dataset": "shop.orders",
    "cause": "input",
    "reason": "the source of shop.orders changed",
    "causes": [{"dataset": "shop.orders", "cause": "input", "reason": "the source of shop.orders changed"}],
    "actor": None,
    "revision": None,
    "datasets": ["shop.orders", "shop.totals"],
    "reached": 2,
    "stopped": 0,
    "left_alone": 1,
    "exports": [],
    "tasks": {"executed": 3, "adopted": 0, "written": 0, "retried": 0, "failed": 0},
    "keys": [{"partition": "2026-11-24.csv", "change": "added"}],
    "more_keys": False,
}

WAVES: Final[WavesAnswer] = {"dataflow": "shop", "items": [WAVE], "next": "shop.orders:3"}

ONE_WAVE: Final[WaveAnswer] = {
    **WAVE,
    "steps": [
        {
            "dataset": "shop.orders",
            "generation": 3,
            "at": AT,
            "cause": "input",
            "revision": 1,
            "partitions": 366,
            "rows": 91500,
            "root": ROOT,
            "before": EARLIER,
            "stopped": False,
            "changes": ONE_NEW,
        }
    ],
    "untouched": ["shop.prices"],
}

RANGES: Final[RangesAnswer] = {
    "dataset": "shop.orders",
    "generation": 3,
    "against": 2,
    "partitions": 366,
    "rows": 91500,
    "items": [
        {"after": None, "last": "2026-05-31", "partitions": 151, "rows": 37750, "digest": EARLIER, "differs": False},
        {
            "after": "2026-05-31",
            "last": "2026-12-31",
            "partitions": 215,
            "rows": 53750,
            "digest": ROOT,
            "differs": True,
        },
    ],
    "reads": 2,
}

PARTITION: Final[PartitionAnswer] = {
    "dataset": "shop.totals",
    "partition": "2026-11-24",
    "generation": 3,
    "rows": 4,
    "bytes": 2310,
    "fragment": FRAGMENT,
    "files": [{"path": f"default/shop/totals/_frags/4b/{ATTEMPT}/0.parquet", "bytes": 2310, "rows": 4}],
    "since": {"generation": 3, "at": LATER, "cause": "input", "is_exact": True},
    "attempt": ATTEMPTED,
    "task_seconds": 7.1,
    "inputs": [
        {
            "slot": "orders",
            "dataset": "shop.orders",
            "mode": "each",
            "generation": 3,
            "revision": 1,
            "partitions": ["2026-11-24"],
            "count": 1,
            "whole": False,
        }
    ],
    "objects": [],
    "readers": [],
    "notes": [],
}

PARTITIONS: Final[PartitionsAnswer] = {
    "generation": 3,
    "items": [
        {"partition": "2026-11-24", "rows": 4, "fragment": FRAGMENT, "bytes": 2310, "change": "added"},
    ],
    "next": None,
}

HISTORY: Final[HistoryAnswer] = {
    "items": [
        {
            "generation": 3,
            "at": LATER,
            "cause": "logic",
            "revision": 2,
            "partitions": 365,
            "rows": 1200,
            "root": ROOT,
            "same_as": 1,
            "changes": {"added": 0, "changed": 365, "removed": 0, "is_all": True},
            "actor": "ana",
            "work": WORK,
        }
    ],
    "next": 3,
}

COST: Final[PlanCost] = {
    "seconds": {"low": 6.2, "median": 7.1, "high": 11.0},
    "bytes": 2300,
    "rows": 4,
    "adopted": 0,
    "unknown": [],
}

PLAN: Final[PlanAnswer] = {
    "branch": "main",
    "state": "work",
    "as_of": AT,
    "sources": [],
    "certain": 1,
    "possible": 0,
    "items": [
        {
            "dataset": "shop.totals",
            "action": "compute",
            "cause": "input",
            "reason": None,
            "certain": True,
            "tasks": 1,
            "count": 1,
            "partitions": ["2026-11-24"],
            "bytes": 160000,
            "modes": {"orders": {"mode": EDGE["mode"], "reason": EDGE["reason"]}},
            "because": {"dataset": "shop.orders", "from": EARLIER, "to": ROOT},
            "cost": COST,
        }
    ],
    "cost": COST,
    "changes": [],
    "breaks": [],
    "notices": [],
    "next": None,
}

SEARCH: Final[SearchAnswer] = {
    "query": "col:total owner:ana",
    "items": [
        {
            "dataset": "shop.totals",
            "kind": "sql",
            "state": "stale",
            "description": "",
            "matches": [{"field": "column", "text": "total"}, {"field": "owner", "text": "ana"}],
            "more": 0,
        }
    ],
    "total": 1,
    "notes": [],
}

_BRANCH = "/v1/branches/{branch}"
_DATASET = _BRANCH + "/datasets/{dataset}"
OF_GET: Final[Mapping[str, object]] = {
    "/v1/search": SEARCH,
    _BRANCH + "/graph": GRAPH,
    _BRANCH + "/plan": PLAN,
    _BRANCH + "/waves": WAVES,
    _BRANCH + "/waves/{wave}": ONE_WAVE,
    _DATASET + "/history": HISTORY,
    _DATASET + "/partition": PARTITION,
    _DATASET + "/partitions": PARTITIONS,
    _DATASET + "/ranges": RANGES,
}
"""By path: what the answer of GET may look like."""

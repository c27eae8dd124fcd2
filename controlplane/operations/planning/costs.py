"""What work is thought to take, by past attempts of the same datasets.

Does not belong here: how attempts are measured and kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from controlplane.core.model.answers import PlanCost, Spread
from controlplane.core.model.past_attempts import Cost
from controlplane.core.plan import Item
from controlplane.ports.store import Tx

COMPUTED = ("compute", "sync")  # actions whose tasks have a past


def known(tx: Tx, branch: str, items: Iterable[Item]) -> Mapping[str, Cost]:
    """What a task of each dataset took, of those that have a past."""
    datasets = sorted({item.dataset for item in items if _has_tasks(item)})
    return tx.past_costs(branch, datasets) if datasets else {}


def _has_tasks(item: Item) -> bool:
    return item.action in COMPUTED and item.tasks > 0


def of_item(item: Item, known: Mapping[str, Cost]) -> PlanCost | None:
    """None where there is nothing to compute."""
    if not _has_tasks(item):
        return None
    cost = known.get(item.dataset)
    if cost is None:
        return {"seconds": None, "bytes": 0, "rows": 0, "unknown": [item.dataset]}
    count = item.tasks
    seconds: Spread = {
        "low": round(cost.seconds_p10 * count, 1),
        "median": round(cost.seconds * count, 1),
        "high": round(cost.seconds_p90 * count, 1),
    }
    return {"seconds": seconds, "bytes": round(cost.bytes * count), "rows": round(cost.rows * count), "unknown": []}


def total(costs: Iterable[PlanCost | None]) -> PlanCost:
    """The sum of what is known."""
    told = [cost for cost in costs if cost is not None]
    spreads = [cost["seconds"] for cost in told if cost["seconds"] is not None]
    unknown = {name for cost in told for name in cost["unknown"]}
    return {
        "seconds": _sum(spreads) if spreads else None,
        "bytes": sum(cost["bytes"] for cost in told),
        "rows": sum(cost["rows"] for cost in told),
        "unknown": sorted(unknown),
    }


def _sum(spreads: list[Spread]) -> Spread:
    return {
        "low": round(sum(one["low"] for one in spreads), 1),
        "median": round(sum(one["median"] for one in spreads), 1),
        "high": round(sum(one["high"] for one in spreads), 1),
    }

"""What work is thought to take, by past attempts of the same datasets, and what drivers cost without
work."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from controlplane.core import tree
from controlplane.core.durations import duration
from controlplane.core.errors import CorruptNode
from controlplane.core.model.answers import DriversAtRest, PlanCost, Spread
from controlplane.core.model.past_attempts import Cost
from controlplane.core.model.scaling import USUAL_KEEP, DriverKeep
from controlplane.core.model.states import State
from controlplane.core.model.tasks import SIZES
from controlplane.core.plan import Item
from controlplane.operations.planning.snapshot import StoreSnapshot

COMPUTED = ("compute", "sync")  # actions whose tasks have a past
# docs/performance.md, At rest: a driver of a local machine, and how long the first task waits
MEMORY, CORES, START = "0.6 to 1.3 GB", "0.3 %", "6 to 11 s"
STAYS = f"{MEMORY} and {CORES} of a core on a local machine, its pool's memory on Kubernetes"


def past_costs_of(facts: StoreSnapshot, items: Iterable[Item]) -> Mapping[str, Cost]:
    """What a task of each dataset takes, of those that have a past: as much more or less than its
    past attempts took as it has more or fewer rows to read by now than for the newest state."""
    datasets = sorted({item.dataset for item in items if _has_tasks(item)})
    past_costs = facts.tx.past_attempts.costs(facts.branch, datasets) if datasets else {}
    times = _times_as_many_rows(facts, past_costs)
    return {name: _grown(cost, times.get(name, 1.0)) for name, cost in past_costs.items()}


def _times_as_many_rows(facts: StoreSnapshot, datasets: Iterable[str]) -> dict[str, float]:
    """How many times as many rows transforms read now, by dataset; none where nothing was read.
    Reads the roots of their inputs at once."""
    read = {name: reads for name in datasets if (reads := _reads(facts, name))}
    try:
        then = tree.summaries(
            facts.nodes, [reading.root for reads in read.values() for reading in reads]
        )
    except CorruptNode:  # `fsck` reports a damaged tree
        return {}
    factors = {}
    for name, reads in read.items():
        before = sum(
            reading.rows(
                then[reading.root].totals.partitions, then[reading.root].totals.content.rows
            )
            for reading in reads
        )
        now = sum(reading.rows(reading.state.partitions, reading.state.rows) for reading in reads)
        if before and now:
            factors[name] = now / before
    return factors


@dataclass(frozen=True, slots=True)
class _InputRead:
    """An input: the root that was read for the newest state of `outputs` partitions, and its state
    now."""

    mode: str
    root: bytes
    state: State
    outputs: int

    def rows(self, partitions: int, rows: int) -> float:
        """That a task reads of it, on an average."""
        match self.mode:
            case "each":
                return rows / max(1, partitions)
            case "by":
                return rows / max(1, self.outputs)
            case _:
                return rows


def _reads(facts: StoreSnapshot, name: str) -> list[_InputRead]:
    node, state = facts.desired.nodes.get(name), facts.state(name)
    if node is None or state is None:
        return []
    return [
        _InputRead(slot.mode, state.inputs[slot.name].root, now, state.partitions)
        for slot in node.slots
        if slot.name in state.inputs and (now := facts.state(slot.dataset)) is not None
    ]


def _grown(cost: Cost, times: float) -> Cost:
    """The cost for more or fewer rows. Part of a task's time does not grow with its rows: the
    spread holds both."""
    return replace(
        cost,
        seconds_p10=cost.seconds_p10 * min(1.0, times),
        seconds=cost.seconds * times,
        seconds_p90=cost.seconds_p90 * max(1.0, times),
    )


def _has_tasks(item: Item) -> bool:
    return item.action in COMPUTED and item.tasks > 0


def of_item(item: Item, past_costs: Mapping[str, Cost]) -> PlanCost | None:
    """None where there is nothing to compute, and nothing that is known already."""
    if item.action == "adopt":
        return {"seconds": None, "bytes": 0, "rows": 0, "adopted": item.count, "unknown": []}
    if not _has_tasks(item):
        return None
    cost = past_costs.get(item.dataset)
    if cost is None:
        return {"seconds": None, "bytes": 0, "rows": 0, "adopted": 0, "unknown": [item.dataset]}
    count = item.tasks
    seconds: Spread = {
        "low": round(cost.seconds_p10 * count, 1),
        "median": round(cost.seconds * count, 1),
        "high": round(cost.seconds_p90 * count, 1),
    }
    size, rows = round(cost.bytes * count), round(cost.rows * count)
    return {"seconds": seconds, "bytes": size, "rows": rows, "adopted": 0, "unknown": []}


def total(costs: Iterable[PlanCost | None]) -> PlanCost:
    """The sum of the known costs."""
    stated = [cost for cost in costs if cost is not None]
    spreads = [cost["seconds"] for cost in stated if cost["seconds"] is not None]
    unknown = {name for cost in stated for name in cost["unknown"]}
    return {
        "seconds": _sum(spreads) if spreads else None,
        "bytes": sum(cost["bytes"] for cost in stated),
        "rows": sum(cost["rows"] for cost in stated),
        "adopted": sum(cost["adopted"] for cost in stated),
        "unknown": sorted(unknown),
    }


def _sum(spreads: list[Spread]) -> Spread:
    return {
        "low": round(sum(spread["low"] for spread in spreads), 1),
        "median": round(sum(spread["median"] for spread in spreads), 1),
        "high": round(sum(spread["high"] for spread in spreads), 1),
    }


# --- drivers without work ---------------------------------------------------------------------------


def at_rest(facts: StoreSnapshot, names: Iterable[str]) -> list[DriversAtRest]:
    """The costs of the dataflows among `names` that choose how long drivers stay."""
    texts = facts.desired.texts
    keeps = {name: texts[name].blueprint.drivers for name in sorted(names) if name in texts}
    return [
        {"dataflow": name, "keep": keep.keep, "sentence": _sentence(keep, _sizes(facts, name))}
        for name, keep in keeps.items()
        if keep != USUAL_KEEP
    ]


def _sizes(facts: StoreSnapshot, dataflow: str) -> str:
    """The pools of the dataflow's tasks, such as `standard, large`."""
    nodes = facts.desired.nodes.values()
    own = [node for node in nodes if node.dataset.partition(".")[0] == dataflow]
    sizes = {node.component.resources for node in own if node.has_rows}
    return ", ".join(size for size in SIZES if size in sizes)


def _sentence(keep: DriverKeep, sizes: str) -> str:
    if keep.keep == "warm":
        return f"one driver of each pool ({sizes}) stays without work: {STAYS}; work starts at once"
    if keep.idle_s is None:
        return f"no driver stays without work: no memory; work waits {START} for Spark's start"
    time = duration(keep.idle_s)
    return f"drivers stay {time} without work: {STAYS}; later work waits {START} for Spark's start"

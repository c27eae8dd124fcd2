"""What the drivers of a dataflow cost while nothing waits for them, as its blueprint chose."""

from __future__ import annotations

from collections.abc import Iterable

from controlplane.core.durations import duration
from controlplane.core.model.answers import DriversAtRest
from controlplane.core.model.scaling import USUAL_KEEP, DriverKeep
from controlplane.core.model.tasks import SIZES
from controlplane.operations.planning.snapshot import StoreSnapshot

# docs/performance.md, At rest: a driver of a local machine, and how long the first task waits
MEMORY, CORES, START = "0.6 to 1.3 GB", "0.3 %", "6 to 11 s"
STAYS = f"{MEMORY} and {CORES} of a core on a local machine, its pool's memory on Kubernetes"


def of_dataflows(facts: StoreSnapshot, names: Iterable[str]) -> list[DriversAtRest]:
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

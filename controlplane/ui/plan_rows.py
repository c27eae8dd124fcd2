"""The work of a plan as rows, one for each dataset: partitions to compute, reused partitions, and
the expected cost."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final, Literal, TypeAlias

from typing_extensions import TypedDict

from controlplane.core.model.answers import PlanAnswer, Spread, State
from controlplane.core.model.answers.components import ComponentsAnswer
from controlplane.core.model.answers.plans import PlanItem
from controlplane.operations.inspect.plan_reach import PlanReach
from controlplane.operations.planning import costs
from controlplane.ui import draw

Mark: TypeAlias = Literal["added", "changed", "removed", "reused", ""]
SIGNS: Final[Mapping[Mark, str]] = {"added": "+", "changed": "~", "removed": "-"}
WHOLE = 40  # boxes: of more, those without work are drawn only beside work


class PlanRow(TypedDict):
    """`mark`: what an edit does to the dataset, or that it is only `reused`. `causes`: why there is
    work. `condition`: of work that comes only if other rows differ. `computed`, `reused`, `removed`
    count partitions. `seconds`: None where nothing is computed, or nothing is known of its past."""

    dataset: str
    mark: Mark
    causes: list[str]
    condition: str | None
    tasks: int
    computed: int
    reused: int
    removed: int
    seconds: Spread | None
    bytes: int
    rows: int
    is_known: bool


def of_plan(plan: PlanAnswer) -> list[PlanRow]:
    """In the order of the plan. Their sums are those of the plan."""
    marks = _marks(plan)
    by_dataset: dict[str, list[PlanItem]] = {}
    for work in plan["items"]:
        by_dataset.setdefault(work["dataset"], []).append(work)
    return [_row(name, items, marks.get(name, "")) for name, items in by_dataset.items()]


class PlanObstacle(TypedDict):
    """Why something does not run, and the `command` that helps, or ""."""

    sentence: str
    command: str


def obstacles(plan: PlanAnswer) -> list[PlanObstacle]:
    """Dataflows that do not compile, sources that were not listed, datasets that failed."""
    waits: list[PlanObstacle] = [
        {"sentence": f"{broken['dataflow']}: {broken['sentence']}", "command": ""}
        for broken in plan.get("not_compiled", ())
    ]
    waits += [
        {"sentence": f"{source['dataset']}: {source['problem']}", "command": ""}
        for source in plan["sources"]
        if source["problem"]
    ]
    waits += [
        {"sentence": failed["sentence"], "command": failed["command"]}
        for failed in plan.get("failed", ())
    ]
    return waits


def _marks(plan: PlanAnswer) -> dict[str, Mark]:
    """Components that an edit adds, changes or removes. A change of words alone is none."""
    marks: dict[str, Mark] = {}
    for change in plan["changes"]:
        kind = change["kind"]
        if kind != "text":
            marks[change["component"]] = kind if kind in ("added", "removed") else "changed"
    return marks


def _row(name: str, items: list[PlanItem], mark: Mark) -> PlanRow:
    cost = costs.total(work.get("cost") for work in items)
    conditions = [work["reason"] for work in items if not work["certain"]]
    computed = _count(items, costs.COMPUTED)
    reused = _count(items, ("adopt",))
    return {
        "dataset": name,
        "mark": mark or ("reused" if reused and not computed else ""),
        "causes": list(dict.fromkeys(work["cause"] for work in items)),
        "condition": next(filter(None, conditions), None),
        "tasks": sum(work["tasks"] for work in items),
        "computed": computed,
        "reused": reused,
        "removed": _count(items, ("remove",)),
        "seconds": cost["seconds"],
        "bytes": cost["bytes"],
        "rows": cost["rows"],
        "is_known": not cost["unknown"],
    }


def _count(items: Iterable[PlanItem], actions: Collection[str]) -> int:
    return sum(work["count"] for work in items if work["action"] in actions)


def failed_names(plan: PlanAnswer) -> list[str]:
    """Datasets and exports that wait for a retry or an edit."""
    return [failed["dataset"] for failed in plan.get("failed", [])]


# --- the picture ----------------------------------------------------------------------------------


def picture(
    plan: PlanAnswer, rows: Iterable[PlanRow], work: Sequence[str], reach: PlanReach
) -> draw.Drawing | None:
    """The components with what the plan does to them; None where it does nothing, or too much to
    draw. `rows`: of the first datasets in `work`."""
    by_name = {row["dataset"]: row for row in rows}
    marks, failed = _marks(plan), failed_names(plan)
    waiting = [source["dataset"] for source in plan["sources"] if source["problem"]]
    behind = _behind([*failed, *waiting], reach["components"])
    states: dict[str, State] = dict.fromkeys(behind, "blocked")
    states |= dict.fromkeys(work, "stale")
    states |= dict.fromkeys(waiting, "waiting")
    states |= dict.fromkeys(failed, "failed")
    touched = marks.keys() | {*work, *failed, *waiting}
    components = reach["components"]
    drawn = _drawn(components, touched)
    if not touched or not 0 < len(drawn) <= draw.BOXES:
        return None
    boxes = [
        _box(component["name"], component["kind"], by_name.get(component["name"]), marks, states)
        for component in components["items"]
        if component["name"] in drawn
    ]
    return draw.graph(boxes, _links(components, touched))


def _behind(stopped: Collection[str], components: ComponentsAnswer) -> set[str]:
    """Components that failed or wait, and those that read them, also through others."""
    readers: dict[str, list[str]] = {}
    for edge in components["edges"]:
        readers.setdefault(edge["source"], []).append(edge["target"])
    behind, unvisited = set(stopped), list(stopped)
    while unvisited:
        new = set(readers.get(unvisited.pop(), ())) - behind
        behind |= new
        unvisited += new
    return behind


def _drawn(components: ComponentsAnswer, touched: Collection[str]) -> set[str]:
    names = {component["name"] for component in components["items"]}
    if len(names) <= WHOLE:
        return names
    beside = {edge["source"] for edge in components["edges"] if edge["target"] in touched}
    beside |= {edge["target"] for edge in components["edges"] if edge["source"] in touched}
    return names & (beside | set(touched))


def _links(components: ComponentsAnswer, touched: Collection[str]) -> list[draw.GraphLink]:
    return [
        draw.GraphLink(
            edge["source"],
            edge["target"],
            edge["mode"],
            edge["reason"],
            is_lit=edge["source"] in touched and edge["target"] in touched,
        )
        for edge in components["edges"]
    ]


def _box(
    name: str,
    kind: str,
    row: PlanRow | None,
    marks: Mapping[str, Mark],
    states: Mapping[str, State],
) -> draw.Box:
    mark: Mark = row["mark"] if row else marks.get(name, "")
    badge = f"{SIGNS[mark]} {mark}" if mark in SIGNS else mark
    state = states.get(name, "")
    if state == "failed":
        share = draw.PartitionShares(0, 0, 1)
        return draw.Box(name, kind, state, "would not run", share, badge or "failed")
    if row is None and state == "stale":
        return draw.Box(name, kind, state, "has work", draw.PartitionShares(0, 1), badge)
    if row is None and state == "waiting":
        return draw.Box(name, kind, state, "source not read", badge=badge or "waiting")
    if row is None:
        sub = "nothing to compute" if mark else ""
        return draw.Box(name, kind, state, sub, badge=badge, faint=not mark)
    state = "waiting" if row["condition"] else "stale" if row["tasks"] else "up_to_date"
    share = draw.PartitionShares(*_shares(row))
    return draw.Box(name, kind, state, _sub(row), share=share, badge=badge)


def _shares(row: PlanRow) -> tuple[float, float]:
    """Shares of partitions: reused, and to compute."""
    total = row["reused"] + row["computed"]
    return (row["reused"] / total, row["computed"] / total) if total else (1.0, 0.0)


def _sub(row: PlanRow) -> str:
    counts = [(row[name], name) for name in ("computed", "reused", "removed")]
    words = [f"{draw.human(number)} {name}" for number, name in counts if number]
    return " · ".join(words) or f"{row['tasks']:,} tasks"

"""From values of pages to pictures: which boxes and cells there are, and what stands in them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from urllib.parse import quote

from controlplane.core.model.answers import State
from controlplane.core.model.answers.components import ComponentsAnswer
from controlplane.core.model.answers.explore import WaveCommit
from controlplane.ui import draw, graph_focus, ranges
from controlplane.ui.graph_focus import GraphRequest
from controlplane.ui.page_types import DatasetPage, FlowPage
from controlplane.ui.views import WORST_FIRST, is_dataset, overdue
from dataplane.contract.keys import plain_key

BARS: Mapping[State, draw.PartitionShares] = {
    "up_to_date": draw.PartitionShares(),
    "held": draw.PartitionShares(),
    "failed": draw.PartitionShares(0, 0, 1),
}
LONGEST_BADGE = 20  # characters
TO_DO = draw.PartitionShares(0, 1, 0)


@dataclass(frozen=True, slots=True)
class FlowPicture:
    """The graph of a dataflow, and how much of it is drawn. `drawing`: None if there is nothing to
    draw."""

    drawing: draw.Drawing | None
    parts: graph_focus.GraphParts


def of_flow(page: FlowPage, request: GraphRequest) -> FlowPicture:
    moment = _Moment.of(page)
    columns = _columns_of(page)
    links = [
        replace(link, is_lit=moment.is_lit(link) or (link.source, link.target) in columns.ways)
        for link in _links(page["components"])
    ]
    boxes = [columns.shown(moment.shown(box)) for box in _boxes_of_flow(page)]
    boxes, links = graph_focus.grouped(
        boxes, links, page["components"]["items"], request, WORST_FIRST
    )
    parts = graph_focus.chosen_parts(boxes, links, request, _recent(page), WORST_FIRST)
    if not parts.boxes:
        return FlowPicture(None, parts)
    sizes = draw.fitting_sizes(parts.boxes)
    drawing = draw.graph(parts.boxes, parts.links, request.chosen or None, sizes)
    return FlowPicture(drawing, parts)


def _recent(page: FlowPage) -> Collection[str]:
    """The datasets of the chosen wave, or else of the last one."""
    last = page["moment"] or next(iter(page["waves"]["items"]), None)
    return {*last["datasets"], *last["exports"]} if last else ()


@dataclass(frozen=True, slots=True)
class _Columns:
    """The lineage of a column in a picture. `names`: the columns on the way, by dataset; `ways`:
    the pairs of datasets between which one comes of another."""

    names: Mapping[str, Collection[str]]
    ways: Collection[tuple[str, str]]

    def shown(self, box: draw.Box) -> draw.Box:
        if not self.names:
            return box
        names = sorted(self.names.get(box.name, ()))
        if not names:
            return replace(box, badge="", faint=True)
        first = names[0] if len(names[0]) <= LONGEST_BADGE else f"{names[0][: LONGEST_BADGE - 1]}…"
        return replace(box, badge=first if len(names) == 1 else f"{first} +{len(names) - 1}")


def _columns_of(page: FlowPage) -> _Columns:
    """Of the column whose lineage is drawn; of no column, if there is none."""
    columns = page["columns"]
    if columns is None or columns["column"] is None:
        return _Columns({}, ())
    names = {columns["dataset"]: {columns["column"]}}
    ways: set[tuple[str, str]] = set()
    for link in columns["links"]:
        if link["column"] is None or link["of_column"] is None:
            continue  # which rows there are, and not what a column holds
        names.setdefault(link["dataset"], set()).add(link["column"])
        names.setdefault(link["of_dataset"], set()).add(link["of_column"])
        ways.add((link["of_dataset"], link["dataset"]))
    return _Columns(names, ways)


@dataclass(frozen=True, slots=True)
class _Moment:
    """The reach of one wave in a picture: badges, and faint nodes outside of it. `exported`:
    exports that it wrote."""

    steps: Mapping[str, WaveCommit]
    stuck: Mapping[str, State]
    exported: frozenset[str]
    is_now: bool

    @classmethod
    def of(cls, page: FlowPage) -> _Moment:
        wave, status = page["moment"], page["status"]
        steps = {step["dataset"]: step for step in wave["steps"]} if wave else {}
        states: dict[str, State] = {
            thing["name"]: thing["state"] for thing in (*status["datasets"], *status["targets"])
        }
        exported = frozenset(wave["exports"] if wave else ())
        return cls(
            steps, {name: states[name] for name in page["stuck"]}, exported, is_now=wave is None
        )

    def is_lit(self, link: draw.GraphLink) -> bool:
        step = self.steps.get(link.source)
        is_moved = (step is not None and not step["stopped"]) or link.source in self.stuck
        return is_moved and (
            link.target in self.steps or link.target in self.stuck or link.target in self.exported
        )

    def shown(self, box: draw.Box) -> draw.Box:
        if self.is_now:
            return box
        step = self.steps.get(box.name)
        if box.name in self.stuck:
            return replace(box, badge=self.stuck[box.name])
        if step is not None:
            badge = "equal" if step["stopped"] else f"gen {step['generation']}"
            return replace(
                box,
                state="up_to_date",
                share=draw.PartitionShares(),
                sub=_sub_of(step),
                badge=badge,
            )
        is_export = box.name in self.exported
        return replace(box, badge="written") if is_export else replace(box, badge="", faint=True)


def _sub_of(step: WaveCommit) -> str:
    """How much of a dataset a wave changed."""
    changes, partitions = step["changes"], step["partitions"]
    if step["stopped"]:
        return "came out as it was"
    if changes is None or step["before"] is None:
        return _sub(partitions, step["rows"])
    number = changes["added"] + changes["changed"] + changes["removed"]
    some = f"{draw.human(number)}{'' if changes['is_all'] else '+'}"
    return f"{some} of {_counted(partitions, 'part')} changed"


def _links(answer: ComponentsAnswer) -> list[draw.GraphLink]:
    return [
        draw.GraphLink(e["source"], e["target"], e["mode"], e["reason"]) for e in answer["edges"]
    ]


def _boxes_of_flow(page: FlowPage) -> list[draw.Box]:
    status = page["status"]
    subs = {d["name"]: _sub(d["partitions"], d["rows"]) for d in status["datasets"]}
    subs |= {t["name"]: f"copy of generation {t['synced_generation']}" for t in status["targets"]}
    states: dict[str, State] = {
        t["name"]: t["state"] for t in (*status["datasets"], *status["targets"])
    }
    states |= page["beyond"]
    late = {d["name"] for d in status["datasets"] if overdue(d)}
    reasons = {t["name"]: t["reason"] for t in (*status["datasets"], *status["targets"])}
    return [
        draw.Box(
            component["name"],
            component["kind"],
            states[component["name"]],
            subs.get(component["name"], f"of {component['name'].partition('.')[0]}"),
            share=BARS.get(states[component["name"]], TO_DO),
            badge="overdue" if component["name"] in late else "",
            reason=reasons.get(component["name"]) or component["description"],
        )
        for component in page["components"]["items"]
        if component["name"] in states
    ]


def _sub(partitions: int, rows: int) -> str:
    if not partitions:
        return "nothing yet"
    return f"{_counted(partitions, 'part')} · {_counted(rows, 'row')}"


def _counted(number: int, name: str) -> str:
    return f"{draw.human(number)} {name}{'' if number == 1 else 's'}"


def of_neighbours(page: DatasetPage) -> draw.Drawing | None:
    """A dataset with what it reads and who reads it; None where they are too many to be legible."""
    near = page["near"]
    if near is None:
        return None
    boxes = [
        draw.Box(component["name"], component["kind"], page["states"][component["name"]], "")
        for component in near["items"]
        if component["name"] in page["states"]
    ]
    if len(boxes) > NEIGHBOURS:
        return None
    name = page["dataset"]["name"]
    links = [link for link in _links(near) if name in (link.source, link.target)]
    return draw.graph(boxes, links, name, draw.PLAIN)


NEIGHBOURS = 24


def address_of(cell: draw.Cell, chosen: str = "") -> str:
    """Behind the address of its dataset: of the partition, or of a look into the range. `chosen`:
    of a generation."""
    if cell.count == 1:
        return f"/partition?key={quote(cell.last, safe='')}"
    after = f"from={quote(cell.first, safe='')}&" if cell.first else ""
    return f"?{chosen}{after}to={quote(cell.last, safe='')}"


def words_of(cell: draw.Cell) -> str:
    rows = f"{cell.rows:,} rows"
    if cell.count == 1:
        return f"{plain_key(cell.last) or '(single partition)'}: {rows}"
    if not cell.count:
        return f"up to {plain_key(cell.last)}: all that was there is gone"
    return f"{cell.count:,} partitions up to {plain_key(cell.last)}: {rows}"


def of_partitions(page: DatasetPage) -> draw.CellMap:
    if page["ranges"] is not None:
        return draw.cells(ranges.cells_of(page["ranges"]))
    page_of_keys = page["partitions"]
    if page_of_keys is None or not is_dataset(page["dataset"]):
        return draw.CellMap()
    changed = (
        {change["partition"] for change in page["changed"]["partitions"]}
        if page["changed"]
        else set[str]()
    )
    return draw.cells(
        [
            draw.Cell(i["partition"], i["partition"], 1, i["rows"], i["partition"] in changed)
            for i in page_of_keys["items"]
        ]
    )

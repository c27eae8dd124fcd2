"""From values of pages to pictures: which boxes and cells there are, and what stands in them."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from urllib.parse import quote

from controlplane.core.model.answers import State
from controlplane.core.model.answers.components import ComponentsAnswer
from controlplane.core.model.answers.datasets import PartitionWork
from controlplane.core.model.answers.explore import PartitionRange, WaveCommit
from controlplane.operations.explore.partition_times import PartitionTimes
from controlplane.ui import draw, graph_focus, partition_cells
from controlplane.ui.graph_focus import GraphRequest
from controlplane.ui.page_types import DatasetPage, FlowPage
from controlplane.ui.partition_cells import Cell
from controlplane.ui.time_axis import fits
from controlplane.ui.views import WORST_FIRST, fragments_of, is_dataset, overdue
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
    """The lineage that is drawn; without names, if no column is chosen."""
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
    subs |= {t["name"]: f"of generation {t['synced_generation']}" for t in status["targets"]}
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
PLAIN_VALUE = re.compile(r"[A-Za-z0-9._-]+")  # of a key: nothing in it is encoded


def address_of(cell: Cell, chosen: str = "") -> str:
    """Behind the address of its dataset: of the partition, or of a look into the range. `chosen`:
    of a generation."""
    if cell.count == 1:
        return f"/partition?key={quote(cell.last, safe='')}"
    after = f"from={quote(cell.first, safe='')}&" if cell.first else ""
    return f"?{chosen}{after}to={quote(cell.last, safe='')}"


def words_of(cell: Cell, period: str = "") -> str:
    """A cell as text: phrases with `; ` between them. `period`: the time that its square is for."""
    key = plain_key(cell.last) or "(single partition)"
    if cell.is_missing:
        return f"missing: {key}; {'its task failed' if cell.failed else 'to be computed'}"
    if not cell.count:
        return f"up to {key}: all that was there is gone"
    phrases = [key if cell.count == 1 else period] if cell.count == 1 or period else []
    if cell.count > 1:
        phrases.append(f"{cell.count:,} partitions up to {key}")
    phrases.append(f"{cell.rows:,} {'row' if cell.rows == 1 else 'rows'}")
    if cell.at is not None:
        written = datetime.fromtimestamp(cell.at, UTC)
        phrases.append(f"written {written:%Y-%m-%d %H:%M} UTC")
    if cell.seconds is not None:
        phrases.append(f"{cell.seconds:,.1f} s a task")
    if cell.failed:
        phrases.append("failed" if cell.count == 1 else f"{cell.failed:,} failed")
    if cell.to_do:
        phrases.append("to be computed" if cell.count == 1 else f"{cell.to_do:,} to be computed")
    return "; ".join(phrases)


def of_partitions(page: DatasetPage, colour: str = "") -> partition_cells.CellMap:
    """`colour`: what colours stand for, one of `partition_cells.COLOURS`; rows by default."""
    shown = _cells_of(page)
    if not shown:
        return partition_cells.CellMap()
    keys: dict[PartitionWork, list[str]] = {"failed": [], "to_do": []}
    missing = set[str]()
    for partition in page["work"]:
        keys[partition["work"]].append(partition["partition"])
        if partition["fragment"] is None:
            missing.add(partition["partition"])
    shown = partition_cells.with_work(shown, keys, missing)
    axis = page["axis"]
    period = axis["period"] if axis else None
    if period is not None and not fits(period, [cell.last for cell in shown]):
        period = None  # a missing partition stands elsewhere
    is_exact = axis is None or axis["is_exact"]
    by: partition_cells.Colour = next(
        (name for name in partition_cells.COLOURS if name == colour), "rows"
    )
    return partition_cells.draw_cells(shown, period, is_exact=is_exact, colour=by)


def _cells_of(page: DatasetPage) -> list[Cell]:
    if page["ranges"] is not None:
        shown = [_cell_of_range(part) for part in page["ranges"]["items"]]
    elif page["partitions"] is not None and is_dataset(page["dataset"]):
        changes = page["changed"]["partitions"] if page["changed"] else []
        changed = {change["partition"] for change in changes}
        shown = [
            Cell(i["partition"], i["partition"], 1, i["rows"], i["partition"] in changed)
            for i in page["partitions"]["items"]
        ]
    else:
        return []
    fragments = fragments_of(page)
    return [_timed(cell, page["times"].get(fragments.get(cell.last, ""))) for cell in shown]


def _cell_of_range(part: PartitionRange) -> Cell:
    first = part["after"] or ""
    return Cell(first, part["last"], part["partitions"], part["rows"], bool(part["differs"]))


def _timed(cell: Cell, times: PartitionTimes | None) -> Cell:
    if times is None or cell.count != 1:
        return cell
    return replace(cell, at=times["at"], seconds=times["seconds"])


def key_column(page: DatasetPage, shown: partition_cells.CellMap) -> str:
    """The column whose texts are the keys of all partitions, and sort as they do: one of dates or
    texts. Empty if there is none."""
    answer = page["dataset"]
    schema = answer["schema"] if is_dataset(answer) else None
    types = {f["name"]: f["type"] for f in schema["fields"]} if schema else {}
    parts = [cell.last.partition("=") for cell in shown.listed]
    names = {name for name, _, _ in parts}
    is_plain = all(PLAIN_VALUE.fullmatch(text) for _, _, text in parts)
    name = names.pop() if len(names) == 1 else ""
    return name if is_plain and types.get(name) in ("date", "string") else ""

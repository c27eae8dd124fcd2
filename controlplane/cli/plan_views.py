"""A plan for people: the changes and breaks of an edit, the work, its estimated cost.

`lines` is for a terminal, `comment` for a pull request.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, cast

from controlplane.cli import source_views
from controlplane.cli.markdown import counted, escaped, fence, folded
from controlplane.cli.output import Lines, TextTable, View, problem_lines
from controlplane.cli.places import shown_file

if TYPE_CHECKING:
    from controlplane.core.model.answers import (
        ComponentChange,
        PlanAnswer,
        PlanBreak,
        PlanCost,
        PlanItem,
    )

# Characters of one component's difference in a comment; GitHub takes 65,536 in all
LONGEST_DIFF = 20_000
LONGEST_DIFFS = 45_000
ITEMS_SHOWN = 50
SOURCES_SHOWN = 20
KINDS = {
    "added": "new",
    "removed": "removed",
    "logic": "logic edited",
    "text": "text only",
    "columns": "follows its inputs",
}
ORIGINS = {"sqlglot": "columns by sqlglot, not by Spark", "unknown": "columns unknown"}


def with_names(value: PlanAnswer, names: Mapping[str, str]) -> PlanAnswer:
    """With files as the user typed them. `names`: by the absolute name."""

    def renamed(problems: Iterable[Any]) -> list[Any]:
        return [problem | {"file": shown_file(problem["file"], names)} for problem in problems]

    changes = [_with_names(change, names) for change in value.get("changes") or ()]
    for change in changes:
        change["breaks"] = renamed(change["breaks"])
    named = {
        "changes": changes,
        "breaks": renamed(value.get("breaks") or ()),
        "notices": renamed(value.get("notices") or ()),
    }
    return cast("PlanAnswer", {**value, **named})


def _with_names(change: ComponentChange, names: Mapping[str, str]) -> ComponentChange:
    text = change["text_diff"]
    for absolute, typed in names.items():
        for mark in ("--- ", "+++ "):
            text = text.replace(f"{mark}{absolute}\n", f"{mark}{typed}\n")
    return {**change, "text_diff": text}


# --- in a terminal ---------------------------------------------------------------------------------


def changes(value: PlanAnswer) -> View:
    """The breaks of an edit, then its changes; empty where nothing was edited."""
    parts: list[TextTable | Lines] = []
    if broken := value.get("breaks"):
        parts.append(Lines(tuple(problem_lines(broken))))
    components = value.get("changes") or []
    if components:
        columns = ("component", "change", "impact", "columns", "what differs")
        parts.append(TextTable(columns, tuple(_row(change) for change in components)))
    return parts


def _row(change: ComponentChange) -> tuple[str, str, str, str, str]:
    reasons = "; ".join([*change["logic"], *_origin(change)])
    return change["component"], KINDS[change["kind"]], change["impact"], _columns(change), reasons


def _origin(change: ComponentChange) -> Iterator[str]:
    """The origin of the columns, where it is not Spark or the blueprint."""
    if change["kind"] in ("removed", "text"):
        return
    origin = ORIGINS.get(change["schema_from"])
    if origin is not None and not (
        change["impact"] == "neutral" and change["schema_from"] == "unknown"
    ):
        yield f"{origin}: {change['schema_unknown']}" if change["schema_unknown"] else origin


def _columns(change: ComponentChange) -> str:
    columns = change["columns"]
    parts = [f"-{name}" for name in columns["removed"]]
    parts += [f"+{name}" for name in columns["added"]]
    parts += [
        f"{column['name']}: {column['before']} -> {column['after']}"
        for column in columns["retyped"]
    ]
    return ", ".join(parts)


def cost_lines(value: PlanAnswer) -> list[str]:
    """The estimated cost of the work."""
    cost = value.get("cost")
    return [f"cost: {in_words(cost)}"] if cost is not None and value["items"] else []


def driver_lines(plan: PlanAnswer) -> list[str]:
    """What drivers cost without work, of dataflows that choose it."""
    return [
        f"drivers: {choice['dataflow']}, {choice['keep']}: {choice['sentence']}"
        for choice in plan.get("drivers") or ()
    ]


def in_words(cost: PlanCost) -> str:
    """Such as `about 40 s of drivers (30 s to 1 min), 1,200 rows, 3.1 MB; unknown for a.b; 12
    partitions known already`."""
    free = f"; {counted(cost['adopted'], 'partition')} known already" if cost.get("adopted") else ""
    spread = cost["seconds"]
    if spread is None:
        return (
            "unknown, no past attempt of this work" if cost["unknown"] else "nothing to compute"
        ) + free
    span = f"{_duration(spread['low'])} to {_duration(spread['high'])}"
    spent = f"about {_duration(spread['median'])} of drivers ({span}), {cost['rows']:,} rows, {_size(cost['bytes'])}"
    unknown = f"; unknown for {', '.join(cost['unknown'])}" if cost["unknown"] else ""
    return spent + unknown + free


def _duration(seconds: float) -> str:
    if seconds < 1:
        return f"{seconds:.1f} s"
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"


def _size(count: int) -> str:
    size = float(count)
    for unit in ("bytes", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "bytes" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"


# --- in a pull request ------------------------------------------------------------------------------


def comment(value: PlanAnswer) -> str:
    """Markdown that a reviewer understands at a glance: one line, what breaks, a table, and the
    rest folded away."""
    parts = [_headline(value)]
    parts += _broken(value.get("breaks") or [])
    parts += _change_table(value.get("changes") or [])
    parts += _work(value)
    parts += _sources(value)
    parts += [f"{escaped(line)}\n" for line in driver_lines(value)]
    parts += _differences(value.get("changes") or [])
    parts += _notices(value)
    parts.append(f"<sub>Planned from what was known at {value['as_of']}.</sub>\n")
    return "\n".join(parts)


def _headline(value: PlanAnswer) -> str:
    components, broken = value.get("changes") or [], value.get("breaks") or []
    verdict = _verdict(components, broken)
    work = _work_in_words(value)
    return f"### Headgate: {verdict}; {work}\n"


def _verdict(components: list[ComponentChange], broken: list[PlanBreak]) -> str:
    if broken:
        return f"❌ breaks {counted(len({b['component'] for b in broken}), 'component')}"
    if not components:
        return "no component is edited"
    impacts = {change["impact"] for change in components}
    edited = counted(sum(change["kind"] != "columns" for change in components), "edit")
    for impact, verdict in (
        ("breaking", "⚠️ breaking"),
        ("unknown", "❔ columns not all known"),
        ("widening", "widening"),
    ):
        if impact in impacts:
            return f"{edited}, {verdict}"
    return f"✅ {edited}, columns stay as they are"


def _work_in_words(value: PlanAnswer) -> str:
    if not value["items"]:
        return "nothing to do"
    possible = f" and up to {value['possible']:,} possible" if value["possible"] else ""
    cost = value.get("cost")
    spread = cost["seconds"] if cost else None
    about = f", about {_duration(spread['median'])} of drivers" if spread else ", time unknown"
    return f"{counted(value['certain'], 'task')} certain{possible}{about}"


def _broken(broken: list[PlanBreak]) -> list[str]:
    if not broken:
        return []
    lines = [
        f"- `{_place(problem)}` {escaped(problem['message'])}{_hint(problem)}" for problem in broken
    ]
    return ["**Breaks**\n", *lines, ""]


def _place(problem: PlanBreak) -> str:
    return f"{problem['file']}:{problem['line']}:{problem['column']}"


def _hint(problem: PlanBreak) -> str:
    return f" — {escaped(problem['hint'])}" if problem["hint"] else ""


def _change_table(components: list[ComponentChange]) -> list[str]:
    if not components:
        return []
    rows = [
        "| component | change | impact | columns | what differs |",
        "| --- | --- | --- | --- | --- |",
    ]
    for change in components:
        impact = f"**{change['impact']}**" if change["impact"] == "breaking" else change["impact"]
        name, kind, _, columns, reasons = _row(change)
        rows.append(f"| `{name}` | {kind} | {impact} | {escaped(columns)} | {escaped(reasons)} |")
    return [*rows, ""]


def _work(value: PlanAnswer) -> list[str]:
    items = value["items"]
    if not items:
        return []
    rows = ["| dataset | work | tasks | why | time |", "| --- | --- | ---: | --- | --- |"]
    rows += [_work_row(item) for item in items[:ITEMS_SHOWN]]
    if len(items) > ITEMS_SHOWN:
        rows.append(f"| ... | | | {len(items) - ITEMS_SHOWN} more | |")
    return folded(f"What runs: {_work_in_words(value)}", rows)


def _work_row(item: PlanItem) -> str:
    tasks = f"{item['tasks']:,}" if item["certain"] else f"up to {item['tasks']:,}"
    why = escaped(item.get("reason") or item["cause"])
    return f"| `{item['dataset']}` | {item['action']} | {tasks} | {why} | {_time(item)} |"


def _time(item: PlanItem) -> str:
    cost = item.get("cost")
    if cost is None:
        return ""
    spread = cost["seconds"]
    if spread is None:
        return "unknown" if cost["unknown"] else ""
    return (
        f"{_duration(spread['median'])} ({_duration(spread['low'])} to {_duration(spread['high'])})"
    )


def _sources(value: PlanAnswer) -> list[str]:
    """The changes at sources, and the time of each source's last listing."""
    lines = [escaped(line) for line in source_views.each(value["sources"])]
    if not lines:
        return []
    unshown = [f"- ... {len(lines) - SOURCES_SHOWN} more"] if len(lines) > SOURCES_SHOWN else []
    return ["**Sources**\n", *(f"- {line}" for line in lines[:SOURCES_SHOWN]), *unshown, ""]


def _differences(components: list[ComponentChange]) -> list[str]:
    parts: list[str] = []
    left = LONGEST_DIFFS
    for change in components:
        text = change["text_diff"]
        if not text:
            continue
        shown = text[: min(LONGEST_DIFF, left)]
        if not shown:
            return [*parts, "More texts differ than fit into a comment.\n"]
        left -= len(shown)
        cut = "" if shown == text else "\n(cut here)"
        mark = fence(shown)
        parts += folded(f"Text of {change['component']}", [f"{mark}diff", shown + cut, mark])
    return parts


def _notices(value: PlanAnswer) -> list[str]:
    notices = value.get("notices") or []
    return (
        folded("Notices", [f"- {escaped(line)}" for line in problem_lines(notices)])
        if notices
        else []
    )

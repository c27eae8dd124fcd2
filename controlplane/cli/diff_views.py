"""Differences of branches and generations for people: for a terminal, and as a comment of a pull
request."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypedDict

from controlplane.cli.markdown import counted, escaped, fence, folded
from controlplane.cli.output import Lines, TextTable, View, partition_name, printable

if TYPE_CHECKING:
    from controlplane.core.model.answers import (
        BranchDifference,
        ComponentDifference,
        DataDifference,
        DatasetDifference,
    )
    from controlplane.core.model.answers.data_diff import (
        DataSide,
        KeyDifference,
        RowDifference,
        RowSamples,
    )

SHOWN_PARTITIONS = 3
SHOWN_ROWS = 10
SHOWN_KEYS = 4  # columns of a key
LONGEST = 50  # characters of one value in a table
LONGEST_COMMENT = 60_000  # GitHub takes 65,536
OTHER_INPUTS = "made from other source data, so rows may differ for that reason alone"


class Data(TypedDict):
    """One dataset whose rows were to be compared, or why they could not be."""

    dataset: str
    difference: DataDifference | None
    problem: str | None


# --- in a terminal ---------------------------------------------------------------------------------


def branches(value: BranchDifference) -> View:
    """Texts as in a pull request, then what that does to data."""
    lines = [line for component in value["components"] for line in _text(component)]
    columns = (
        "dataset",
        "state",
        "partitions added",
        "removed",
        "changed",
        "moved",
        "rows",
        "partitions",
    )
    rows = tuple(map(_row, value["datasets"]))
    table = [TextTable(columns, rows)] if rows else []
    other = [
        f"{each['dataset']}: {OTHER_INPUTS}"
        for each in value["datasets"]
        if _has_other_inputs(each)
    ]
    return [
        Lines(tuple(lines)),
        *table,
        Lines((*other, f"{value['shared']} other datasets are the same in both")),
    ]


def _has_other_inputs(difference: DatasetDifference | DataDifference) -> bool:
    return difference["state"] == "changed" and not difference["same_inputs"]


def _text(component: ComponentDifference) -> Iterator[str]:
    yield _name(component)
    yield from (f"  {line}" for line in component["diff"])


def _name(component: ComponentDifference) -> str:
    return (
        f"{component['dataflow']}.{component['component']}"
        if component["component"]
        else component["dataflow"]
    )


def _row(difference: DatasetDifference) -> tuple[object, ...]:
    keys = [partition_name(key) for key in difference["partitions"]]
    unshown = (
        difference["added"]
        + difference["removed"]
        + difference["changed"]
        + difference["moved"]
        - SHOWN_PARTITIONS
    )
    shown = ", ".join(keys[:SHOWN_PARTITIONS]) + (f", ... {unshown} more" if unshown > 0 else "")
    numbers = (
        difference["added"],
        difference["removed"],
        difference["changed"],
        difference["moved"],
    )
    return (difference["dataset"], difference["state"], *numbers, f"{difference['rows']:+d}", shown)


def data(differences: Sequence[Data]) -> View:
    parts: list[TextTable | Lines] = []
    for each in differences:
        if each["difference"] is None:
            parts.append(Lines((f"{each['dataset']}: rows are not compared: {each['problem']}",)))
        else:
            parts += dataset(each["difference"])
    return parts


def dataset(value: DataDifference) -> View:
    """One dataset: a headline, columns, partitions, then rows."""
    first, second = value["one"], value["other"]
    lines = [f"{value['dataset']}: {_side(first)} -> {_side(second)}", f"  {_summary(value)}"]
    lines += [f"  {OTHER_INPUTS}"] if _has_other_inputs(value) else []
    lines += [f"  {line}" for line in _columns(value)]
    parts: list[TextTable | Lines] = [Lines(tuple(lines))]
    if value["partitions"]:
        rows = tuple(
            (
                partition_name(p["partition"]),
                _state(p["state"], p["source"]),
                _number(p["before"]),
                _number(p["after"]),
            )
            for p in value["partitions"]
        )
        parts.append(TextTable(("partition", "state", "rows before", "rows after"), rows))
    if value["next"] is not None:
        parts.append(Lines(("... more partitions: --output json has the numbers of all",)))
    if value["row_changes"] is not None:
        parts += _rows(value["row_changes"])
    return parts


def _side(side: DataSide) -> str:
    if side["generation"] is None:
        return f"{side['branch']} (no data)"
    return f"{side['branch']}@{side['generation']}"


def _state(state: str, source: str | None) -> str:
    return state if source is None else f"{state} from {partition_name(source)}"


def _number(rows: int | None) -> int | str:
    return "" if rows is None else rows


def _summary(value: DataDifference) -> str:
    """Such as `2 partitions changed, 1 added; rows +12 -10`."""
    changed_rows = value["row_changes"]
    if value["state"] == "equal":
        return "equal"
    numbers = {kind: value[kind] for kind in ("changed", "added", "removed", "moved")}
    counts = [f"{n:,} {kind}" for kind, n in numbers.items() if n]
    partitions = f"partitions: {', '.join(counts) or 'equal'}"
    rows = (
        f"rows {value['rows']:+,}" if changed_rows is None else f"rows {_plus_minus(changed_rows)}"
    )
    return f"{partitions}; {rows}"


def _plus_minus(rows: RowDifference) -> str:
    return f"+{rows['added']:,} -{rows['removed']:,}"


def _columns(value: DataDifference) -> Iterator[str]:
    columns = value["columns"]
    if columns["added"]:
        yield f"columns added: {', '.join(columns['added'])}"
    if columns["removed"]:
        yield f"columns removed: {', '.join(columns['removed'])}"
    for column in columns["changed"]:
        comparison = (
            "not compared"
            if column["compared_as"] is None
            else f"compared as {column['compared_as']}"
        )
        yield f"column {column['name']}: {column['before']} -> {column['after']}, {comparison}"
    if value["row_changes"] is not None and value["row_changes"]["left_out"]:
        yield f"columns not compared: {', '.join(value['row_changes']['left_out'])}"


def _rows(difference: RowDifference) -> View:
    by_key = difference["by_key"]
    if by_key is None:
        return [*_signed_table(difference["samples"]), *_unshown_rows(difference)]
    pairs = [Lines(tuple(_key_lines(by_key))), *_pair_table(by_key)]
    return [*pairs, *_signed_table(by_key["unpaired"])]


def _signed_table(samples: RowSamples) -> View:
    """Rows of one side alone."""
    signed = [("-", row) for row in samples["removed"][:SHOWN_ROWS]]
    signed += [("+", row) for row in samples["added"][:SHOWN_ROWS]]
    if not signed:
        return []
    names = tuple(signed[0][1])
    rows = tuple((sign, *(_value(row[name]) for name in names)) for sign, row in signed)
    return [TextTable(("", *names), rows)]


def _unshown_rows(difference: RowDifference) -> View:
    shown = min(len(difference["samples"]["removed"]), SHOWN_ROWS) + min(
        len(difference["samples"]["added"]), SHOWN_ROWS
    )
    unshown = difference["added"] + difference["removed"] - shown
    return [Lines((f"... {counted(unshown, 'more row')}",))] if unshown > 0 else []


def _key_lines(by_key: KeyDifference) -> Iterator[str]:
    key = ", ".join(by_key["key"][:SHOWN_KEYS]) + ", ..." * (len(by_key["key"]) > SHOWN_KEYS)
    how = f"the unchanged columns ({key})" if by_key["is_inferred"] else key
    yield (
        f"paired by {how}: {by_key['changed']:,} of {by_key['matched']:,} matched rows differ,"
        f" {counted(by_key['added'], 'key')} added, {by_key['removed']:,} removed"
    )
    if by_key["ambiguous"]:
        yield f"{counted(by_key['ambiguous'], 'key')} not unique, and not matched: choose more columns"
    for name, n in sorted(by_key["columns"].items(), key=lambda item: (-item[1], item[0])):
        yield f"  {name}: {counted(n, 'row')} changed"
    yield f"  {counted(by_key['equal_columns'], 'column')} equal"


def _pair_table(by_key: KeyDifference) -> View:
    """One line for each column that differs."""
    pairs = by_key["samples"][:SHOWN_ROWS]
    if not pairs:
        return []
    keys = tuple(by_key["key"][:SHOWN_KEYS])
    rows = tuple(
        (
            *(_value(pair["key"][k]) for k in keys),
            column,
            _value(pair["before"][column]),
            _value(pair["after"][column]),
        )
        for pair in pairs
        for column in pair["before"]
    )
    return [TextTable((*keys, "column", "before", "after"), rows)]


def _value(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"


# --- in a pull request ------------------------------------------------------------------------------


def comment(value: BranchDifference, differences: Sequence[Data]) -> str:
    """Markdown: one line, a table of datasets, and texts and rows folded away."""
    parts = [
        f"### Headgate: {_verdict(value)}\n",
        *_dataset_table(value, {each["dataset"]: each for each in differences}),
    ]
    for each in differences:
        if each["difference"] is not None:
            parts += _details(each["difference"])
    for component in value["components"]:
        mark = fence("\n".join(component["diff"]))
        lines = [f"{mark}diff", *component["diff"], mark]
        parts += folded(f"Text of {_name(component)}", lines)
    parts.append(f"<sub>From {_code(value['one'])} to {_code(value['other'])}.</sub>\n")
    return _within_limit(parts)


def dataset_comment(value: DataDifference) -> str:
    """Markdown of one dataset."""
    first, second = _code(_side(value["one"])), _code(_side(value["other"]))
    head = f"### Headgate: {_code(value['dataset'])} {escaped(_summary(value))}\n"
    return _within_limit([head, *_details(value), f"<sub>From {first} to {second}.</sub>\n"])


def _verdict(value: BranchDifference) -> str:
    changed = [each for each in value["datasets"] if each["state"] != "equal"]
    if not changed and not value["components"]:
        return "✅ the branches are the same"
    if not changed:
        return f"✅ {counted(len(value['components']), 'edit')}, no data differs"
    rows = sum(each["rows"] for each in changed)
    return f"data of {counted(len(changed), 'dataset')} differs; rows {rows:+,}"


def _dataset_table(value: BranchDifference, differences: Mapping[str, Data]) -> list[str]:
    changed = [each for each in value["datasets"] if each["state"] != "equal"]
    if not changed:
        return []
    rows = ["| dataset | state | partitions | rows | |", "| --- | --- | --- | ---: | --- |"]
    for each in changed:
        data = differences.get(each["dataset"])
        rows.append(
            f"| {_code(each['dataset'])} | {each['state']} | {_partitions(each)} | {_row_cell(each, data)} |"
        )
    return [*rows, ""]


def _partitions(difference: DatasetDifference) -> str:
    numbers = {kind: difference[kind] for kind in ("changed", "added", "removed", "moved")}
    return ", ".join(f"{n:,} {kind}" for kind, n in numbers.items() if n)


def _row_cell(each: DatasetDifference, data: Data | None) -> str:
    """Two cells: the rows, and notes on them."""
    notes = [OTHER_INPUTS] if _has_other_inputs(each) else []
    rows = f"{each['rows']:+,}"
    if data is not None and data["problem"]:
        notes.append(f"rows are not compared: {data['problem']}")
    if data is not None and data["difference"] is not None:
        notes += _columns(data["difference"])
        if data["difference"]["row_changes"] is not None:
            rows = _plus_minus(data["difference"]["row_changes"])
    return f"{rows} | {escaped('; '.join(notes))}"


def _details(value: DataDifference) -> list[str]:
    """Rows, folded away."""
    if value["row_changes"] is None:
        return []
    lines: list[str] = []
    for part in _rows(value["row_changes"]):
        lines += (
            _markdown_table(part)
            if isinstance(part, TextTable)
            else [f"{escaped(line)}  " for line in part.lines]
        )
        lines.append("")
    return (
        folded(f"Rows of {value['dataset']}: {_plus_minus(value['row_changes'])}", lines)
        if lines
        else []
    )


def _markdown_table(table: TextTable) -> list[str]:
    rows = [table.columns, ("---",) * len(table.columns), *table.rows]
    return [
        f"| {' | '.join(cell if cell == '---' else escaped(str(cell)) for cell in row)} |"
        for row in rows
    ]


def _code(text: str) -> str:
    return f"`{printable(text)}`"


def _within_limit(parts: Sequence[str]) -> str:
    """Whole parts, as many as fit."""
    shown: list[str] = []
    left = LONGEST_COMMENT
    for part in parts:
        left -= len(part.encode()) + 1
        if left < 0:
            return "\n".join(
                [
                    *shown,
                    "More differs than fits into a comment: `headgate branch diff` shows all.\n",
                ]
            )
        shown.append(part)
    return "\n".join(shown)

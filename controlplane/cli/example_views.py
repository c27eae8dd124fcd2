"""How results of tests are shown: lines for people, and JUnit's XML for CI."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

from controlplane.cli.output import Lines, View

if TYPE_CHECKING:
    from controlplane.core.model.answers.examples import (
        ExampleDifference,
        ExampleEntry,
        ExamplesAnswer,
    )
    from dataplane.contract.schemas import Json

SHOWN_ROWS = 20  # of each kind


def results(answer: ExamplesAnswer) -> View:
    lines = [line for entry in answer["tests"] for line in _entry(entry)]
    if not answer["tests"]:
        return [Lines(("no tests: a transform has them below `tests:`",))]
    counts = f"{answer['passed']} passed, {answer['failed']} failed in {answer['wall_s']:.1f} s"
    return [Lines((*lines, counts))]


def _entry(entry: ExampleEntry) -> Iterator[str]:
    mark = "pass" if entry["state"] == "passed" else "FAIL"
    place = (
        "" if entry["state"] == "passed" else f"  {entry['file']}:{entry['line']}:{entry['column']}"
    )
    yield f"{mark}  {entry['dataset']}: {entry['name']}  ({entry['seconds']:.2f} s){place}"
    if entry["state"] == "failed":
        yield from (f"      {line}" for line in _why(entry))


def _why(entry: ExampleEntry) -> Iterator[str]:
    yield from entry["message"].splitlines()
    error = entry["error"]
    if error is not None and error["file"] and error["line"]:
        yield f"at {error['file']}:{error['line']}:{error['column'] or 1}"
    if entry["difference"] is not None:
        yield from _difference(entry["difference"])
    yield from entry["notes"]


def _difference(difference: ExampleDifference) -> Iterator[str]:
    """Rows as YAML writes them, so that they can be pasted."""
    columns = difference["columns"]
    yield from _rows("-", columns, difference["missing"])
    yield from _rows("+", columns, difference["unexpected"])
    for change in difference["changed"][:SHOWN_ROWS]:
        yield f"- {_row(columns, change['expected'], change['columns'])}"
        yield f"+ {_row(columns, change['found'], change['columns'])}"
    if len(difference["changed"]) > SHOWN_ROWS:
        yield f"  and {len(difference['changed']) - SHOWN_ROWS} more changed rows"


def _rows(mark: str, columns: Sequence[str], rows: Sequence[Sequence[Json]]) -> Iterator[str]:
    for row in rows[:SHOWN_ROWS]:
        yield f"{mark} {_row(columns, row)}"
    if len(rows) > SHOWN_ROWS:
        yield f"{mark} and {len(rows) - SHOWN_ROWS} more"


def _row(columns: Sequence[str], row: Sequence[Json], marked: Sequence[str] = ()) -> str:
    """Changed cells stand between asterisks."""
    cells = (
        _cell(name, value, is_marked=name in marked)
        for name, value in zip(columns, row, strict=True)
    )
    return "{" + ", ".join(cells) + "}"


def _cell(name: str, value: Json, *, is_marked: bool) -> str:
    text = f"{name}: {flow(value)}"
    return f"*{text}*" if is_marked else text


def flow(value: Json) -> str:
    """A value as YAML reads it within a line."""
    if isinstance(value, str) and not _is_plain(value):
        return "".join(map(_escaped, json.dumps(value, ensure_ascii=False)))
    if isinstance(value, dict):
        return (
            "{" + ", ".join(f"{flow(str(key))}: {flow(item)}" for key, item in value.items()) + "}"
        )
    if isinstance(value, list):
        return "[" + ", ".join(map(flow, value)) + "]"
    return value if isinstance(value, str) else json.dumps(value)


def _escaped(character: str) -> str:
    if character.isprintable():
        return character
    code = ord(character)
    return f"\\u{code:04x}" if code < 0x1_0000 else f"\\U{code:08x}"


def _is_plain(text: str) -> bool:
    """Whether a text needs no quotes: letters first, and nothing that YAML could take for something
    else."""
    is_word = bool(text) and text[0].isalpha() and all(c.isalnum() or c in " ._-" for c in text)
    return is_word and text == text.strip() and text.lower() not in ("true", "false", "null")


# --- JUnit ----------------------------------------------------------------------------------------


def junit(answer: ExamplesAnswer) -> str:
    """The XML that CI systems read."""
    counts = {"tests": str(len(answer["tests"])), "failures": str(answer["failed"]), "errors": "0"}
    suite = ET.Element(
        "testsuite", {"name": "headgate", "time": f"{answer['wall_s']:.3f}"} | counts
    )
    for entry in answer["tests"]:
        _testcase(suite, entry)
    ET.indent(suite)
    return ET.tostring(suite, encoding="unicode", xml_declaration=True) + "\n"


def _testcase(suite: ET.Element, entry: ExampleEntry) -> None:
    seconds, line = f"{entry['seconds']:.3f}", str(entry["line"])
    named = {"classname": entry["dataset"], "name": entry["name"], "time": seconds}
    case = ET.SubElement(suite, "testcase", named | {"file": entry["file"], "line": line})
    if entry["state"] == "failed":
        failure = ET.SubElement(
            case, "failure", {"message": _visible(entry["message"].partition("\n")[0])}
        )
        failure.text = _visible("\n".join(_why(entry)))


def _visible(text: str) -> str:
    """Without characters that XML cannot hold."""
    return "".join(c if c.isprintable() or c in "\n\t" else repr(c)[1:-1] for c in text)

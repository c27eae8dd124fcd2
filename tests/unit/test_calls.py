"""Calls that a reader can follow: beyond six arguments, those after the first are named."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
MOST = 6
# Lists of columns, fields of a log line; and values that are made by the million, where names cost
# time.
LISTS = {"_table", "select", "info"}
IN_HOT_LOOPS = {"NodeRef", "Lexeme"}


def calls(path: Path) -> Iterator[ast.Call]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call):
            yield node


def name_of(call: ast.Call) -> str:
    match call.func:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
    return ""


def test_no_call_has_more_than_six_arguments_by_position() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{call.lineno} {name_of(call)}"
        for plane in ("controlplane", "dataplane", "headgate")
        for path in sorted((ROOT / plane).rglob("*.py"))
        for call in calls(path)
        if len(call.args) > MOST and name_of(call) not in LISTS | IN_HOT_LOOPS
    ]
    assert found == []

"""Texts for the tests of this folder. A `^` in a text marks where a problem is expected; it is no
part of it."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from controlplane.core.blueprint import Body, parse
from controlplane.core.errors import InvalidBlueprint, Problem

READ = "read: {connector: files, path: 'data/*.csv', format: csv}"
NO_FILES: Mapping[str, str] = MappingProxyType({})


def problems_of(text: str | bytes, files: Mapping[str, str] = NO_FILES) -> tuple[Problem, ...]:
    try:
        parse(text, file="f.yaml", files=files)
    except InvalidBlueprint as e:
        return e.problems
    return ()


def marked(text: str) -> tuple[str, list[tuple[int, int]]]:
    """The text without its marks, and their lines and columns."""
    places, lines = [], []
    for number, line in enumerate(text.split("\n"), 1):
        while (column := line.find("^")) >= 0:
            places.append((number, column + 1))
            line = line[:column] + line[column + 1 :]
        lines.append(line)
    return "\n".join(lines), places


def component(body: str, name: str = "c") -> str:
    """A blueprint of one component."""
    indented = "\n".join(f"    {line}" for line in body.split("\n"))
    return f"dataflow: d\ncomponents:\n  {name}:\n{indented}\n"


def one(body: str, files: Mapping[str, str] = NO_FILES) -> Body:
    """The body of a component."""
    return parse(component(body), file="f.yaml", files=files).components[0].body

"""The text of a blueprint in parts: what is before its components, each component, and what is after them.

A part keeps its comments and its layout, so that parts put together again are the same text. Does not belong here:
which parts are taken.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from controlplane.core.blueprint.nodes import Entries, Scalar
from controlplane.core.blueprint.problems import Problems
from controlplane.core.blueprint.yaml_reader import read


@dataclass(frozen=True, slots=True)
class Parts:
    """`head` and `tail` are what stands before and after the components. Each part ends with a line break."""

    head: str
    components: Mapping[str, str]
    tail: str

    @property
    def text(self) -> str:
        return self.head + "".join(self.components.values()) + self.tail


def split(text: str) -> Parts | None:
    """None where components do not begin lines of their own, or the text is no blueprint."""
    whole = text if text.endswith("\n") else text + "\n"
    lines = whole.splitlines(keepends=True)
    keys = _components(whole)
    if not keys or not all(_begins_its_line(key, lines) for key in keys):
        return None
    starts = [_with_comments(lines, key) for key in keys]
    end = _end(lines, keys[-1])
    bounds = [*starts, end]
    parts = {key.text: "".join(lines[bounds[i] : bounds[i + 1]]) for i, key in enumerate(keys)}
    return Parts("".join(lines[: bounds[0]]), parts, "".join(lines[end:]))


def _components(text: str) -> list[Scalar]:
    """The names of the components."""
    document = read(text, "", Problems())
    if document is None or not isinstance(document.root, Entries):
        return []
    components = document.root.get("components")
    return [key for key, _ in components.entries] if isinstance(components, Entries) else []


def _begins_its_line(key: Scalar, lines: list[str]) -> bool:
    return not lines[key.place.line - 1][: key.place.column - 1].strip()


def _with_comments(lines: list[str], key: Scalar) -> int:
    """The line where a component begins, with the comments right above it that stand as far to the right."""
    first, indent = key.place.line - 1, key.place.column - 1
    while first and lines[first - 1].startswith(" " * indent + "#"):
        first -= 1
    return first


def _end(lines: list[str], last: Scalar) -> int:
    """The line after the last component: the first that stands less far to the right than its name."""
    for number in range(last.place.line, len(lines)):
        line = lines[number]
        if line.strip() and len(line) - len(line.lstrip(" ")) < last.place.column - 1:
            return number
    return len(lines)

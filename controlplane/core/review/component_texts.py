"""What differs in the text of one component: its lines of the blueprint, and the Python files that
it names."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from functools import lru_cache

from controlplane.core.blueprint import Component, PythonTransform
from controlplane.core.blueprint.yaml_nodes import indent_of
from controlplane.core.compile.nodes import Desired

NO_TEXTS: Mapping[str, tuple[int, str]] = {}
_HUNK = re.compile(r"^@@ -(\d+)(,\d+)? \+(\d+)(,\d+)? @@")


def component_texts(desired: Desired, dataset: str) -> Mapping[str, tuple[int, str]]:
    """Each file's part of a component, by file: the first line of the part, and the part. Empty if
    there is none. The blueprint's own part comes first."""
    node = desired.nodes.get(dataset)
    of = desired.texts.get(dataset.partition(".")[0])
    if node is None or of is None:
        return NO_TEXTS
    component = node.component
    first = component.place.line
    texts = {component.place.file: (first, _block(of.revision.text, first))}
    for path, text in _modules(component).items():
        texts[path] = (1, text)
    return texts


def _modules(component: Component) -> dict[str, str]:
    body = component.body
    if not isinstance(body, PythonTransform):
        return {}
    return {path: text for path, text in body.modules if not (body.is_inline and path == body.main)}


def _block(text: str, first: int) -> str:
    """The lines from the component's name on that are indented deeper than the name is."""
    lines = _lines(text)
    if first > len(lines):
        return ""
    indent = indent_of(lines[first - 1])
    end = first
    for number in range(first, len(lines)):
        line = lines[number]
        if not line.strip():
            continue
        if indent_of(line) <= indent:
            break
        end = number + 1
    return "\n".join(lines[first - 1 : end])


@lru_cache(maxsize=16)
def _lines(text: str) -> tuple[str, ...]:
    """The lines of a blueprint, for each of its components."""
    return tuple(text.splitlines())


def text_diff(before: Mapping[str, tuple[int, str]], after: Mapping[str, tuple[int, str]]) -> str:
    """A unified diff over all files, with the line numbers of the files; empty if nothing differs.
    A blueprint that comes from another path is the same blueprint."""
    before = _under_the_name_of(after, before)
    parts: list[str] = []
    for file in sorted({*before, *after}):
        parts += _diff(file, before.get(file, (1, "")), after.get(file, (1, "")))
    return "\n".join(parts)


def _under_the_name_of(
    after: Mapping[str, tuple[int, str]], before: Mapping[str, tuple[int, str]]
) -> Mapping[str, tuple[int, str]]:
    """The blueprint's own part comes first in both."""
    own, new = next(iter(before), None), next(iter(after), None)
    if own is None or new is None:
        return before
    return {new if file == own else file: part for file, part in before.items()}


def _diff(file: str, before: tuple[int, str], after: tuple[int, str]) -> list[str]:
    old, new = before[1].splitlines(), after[1].splitlines()
    lines = difflib.unified_diff(old, new, file, file, lineterm="")
    return [_moved(line, before[0] - 1, after[0] - 1) for line in lines]


def _moved(line: str, old: int, new: int) -> str:
    """A hunk's heading with line numbers of the whole file."""
    heading = _HUNK.match(line)
    if heading is None:
        return line
    start, size, begin, length = heading.groups()
    return f"@@ -{int(start) + old}{size or ''} +{int(begin) + new}{length or ''} @@"

"""The text of a blueprint in parts: the text before its components, each component with its keys,
and the text after them.

A part keeps its comments and its layout, so that parts put together again are the same text; beside
it is its meaning without them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TypeAlias

from controlplane.core.blueprint.problems import Problems
from controlplane.core.blueprint.yaml_nodes import BrokenNode, Entries, Items, Node, Scalar
from controlplane.core.blueprint.yaml_reader import read

NO_FILES: Mapping[str, str] = MappingProxyType({})
# In place of a key: all that a component says, where its keys do not each begin a line
WHOLE_BODY = ""
Meaning: TypeAlias = tuple[object, ...]  # a tree of tuples and texts


@dataclass(frozen=True, slots=True)
class Unit:
    """Lines that belong together. `meaning`: their content without layout, and the texts of the
    Python files that they name."""

    text: str
    meaning: Meaning
    files: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class ComponentPart:
    """One component: comments and its name, the text between that and its first key, its keys, and
    blank lines.

    `line` and `column` count from 1. `indent` is how far to the right its keys stand, or -1 for
    WHOLE_BODY.
    """

    name: str
    line: int
    column: int
    head: Unit
    colon: str
    keys: Mapping[str, Unit]
    blank: str
    indent: int

    @property
    def text(self) -> str:
        return self.head.text + self.body.text + self.blank

    @property
    def meaning(self) -> Meaning:
        """What it says but for its name. The order of keys says nothing."""
        if WHOLE_BODY in self.keys:
            return self.keys[WHOLE_BODY].meaning
        return _sorted((name, unit.meaning) for name, unit in self.keys.items())

    @property
    def files(self) -> frozenset[str]:
        """Python files that it names."""
        return frozenset[str]().union(*(unit.files for unit in self.keys.values()))

    @property
    def body(self) -> Unit:
        """All keys as one."""
        return Unit(self.colon + "".join(unit.text for unit in self.keys.values()), self.meaning)


@dataclass(frozen=True, slots=True)
class BlueprintParts:
    """`head` and `tail` are what stands before and after the components. Each part ends with a line
    break."""

    head: Unit
    components: Mapping[str, ComponentPart]
    tail: Unit

    @property
    def text(self) -> str:
        return (
            self.head.text
            + "".join(part.text for part in self.components.values())
            + self.tail.text
        )

    @property
    def indents(self) -> frozenset[int]:
        return frozenset(part.column for part in self.components.values())


def split(text: str, files: Mapping[str, str] = NO_FILES) -> BlueprintParts | None:
    """None where components do not begin lines of their own, or the text is no blueprint."""
    ended = text if text.endswith("\n") else text + "\n"
    lines = ended.splitlines(keepends=True)
    root = _root(ended)
    entries = _components(root)
    if root is None or not entries or not _begin_lines(entries, lines):
        return None
    starts = [_above(lines, key.place.line - 1, key.place.column - 1) for key, _ in entries]
    end = _end(lines, entries[-1][0])
    bounds = [*starts, end]
    parts = {
        key.text: _Component(lines[bounds[i] : bounds[i + 1]], bounds[i], key, node, files).part()
        for i, (key, node) in enumerate(entries)
    }
    before, after = _around(root)
    head, tail = "".join(lines[: bounds[0]]), "".join(lines[end:])
    return BlueprintParts(Unit(head, before), parts, Unit(tail, after))


def definitions(text: str, files: Mapping[str, str] = NO_FILES) -> dict[str, Meaning]:
    """What each component says, by name, without its layout; none if the text is no blueprint."""
    return {key.text: _of_component(node, files) for key, node in _components(_root(text))}


def _root(text: str) -> Entries | None:
    document = read(text, "", Problems())
    return document.root if document is not None and isinstance(document.root, Entries) else None


def _components(root: Entries | None) -> tuple[tuple[Scalar, Node], ...]:
    components = root.get("components") if root is not None else None
    return components.entries if isinstance(components, Entries) else ()


def _around(root: Entries) -> tuple[Meaning, Meaning]:
    """The meaning of the text before the components, and after them."""
    names = [key.text for key, _ in root.entries]
    at = names.index("components")
    return _of_entries(root.entries[:at]), _of_entries(root.entries[at + 1 :])


def _begin_lines(entries: Iterable[tuple[Scalar, Node]], lines: Sequence[str]) -> bool:
    return not any(lines[key.place.line - 1][: key.place.column - 1].strip() for key, _ in entries)


def _above(lines: Sequence[str], line: int, indent: int, least: int = 0) -> int:
    """The line where an entry begins, with the comments right above it that stand as far to the
    right."""
    while line > least and lines[line - 1].startswith(" " * indent + "#"):
        line -= 1
    return line


def _end(lines: Sequence[str], last: Scalar) -> int:
    """The line after the last component: the first that stands less far to the right than its
    name."""
    for number in range(last.place.line, len(lines)):
        line = lines[number]
        if line.strip() and len(line) - len(line.lstrip(" ")) < last.place.column - 1:
            return number
    return len(lines)


class _Component:
    """`lines` are its own; the first of them is number `first` of the text, counted from 0."""

    def __init__(
        self, lines: list[str], first: int, key: Scalar, node: Node, files: Mapping[str, str]
    ) -> None:
        self._first, self._key, self._node, self._files = first, key, node, files
        filled = len(lines)
        while filled > key.place.line - first and not lines[filled - 1].strip():
            filled -= 1
        self._lines, self._blank = lines[:filled], "".join(lines[filled:])

    def part(self) -> ComponentPart:
        name = self._key.place.line - 1 - self._first
        end = self._key.place.column - 1 + self._key.end - self._key.start
        head = "".join(self._lines[:name]) + self._lines[name][:end]
        starts = self._starts(name + 1)
        if starts:
            colon = self._lines[name][end:] + "".join(self._lines[name + 1 : starts[0]])
            keys = dict(self._keys(starts))
            indent = self._entries[0][0].place.column - 1
        else:
            colon, indent = "", -1
            rest = self._lines[name][end:] + "".join(self._lines[name + 1 :])
            named = _named(self._node, self._files)
            keys = {WHOLE_BODY: Unit(rest, _of_component(self._node, self._files), named)}
        return ComponentPart(
            self._key.text,
            self._key.place.line,
            self._key.place.column,
            head=Unit(head, (self._key.text,)),
            colon=colon,
            keys=keys,
            blank=self._blank,
            indent=indent,
        )

    @property
    def _entries(self) -> tuple[tuple[Scalar, Node], ...]:
        return self._node.entries if isinstance(self._node, Entries) else ()

    def _starts(self, least: int) -> list[int]:
        """The lines where keys begin; none if they do not each begin a line."""
        starts: list[int] = []
        for key, _ in self._entries:
            line = key.place.line - 1 - self._first
            if line < least or self._lines[line][: key.place.column - 1].strip():
                return []
            starts.append(
                _above(self._lines, line, key.place.column - 1, starts[-1] + 1 if starts else least)
            )
        return starts

    def _keys(self, starts: Sequence[int]) -> Iterator[tuple[str, Unit]]:
        ends = [*starts[1:], len(self._lines)]
        for (key, node), start, end in zip(self._entries, starts, ends, strict=True):
            text, named = "".join(self._lines[start:end]), _named(node, self._files)
            yield key.text, Unit(text, _meaning_of(node, self._files), named)


def _of_component(node: Node, files: Mapping[str, str]) -> Meaning:
    """As Part.meaning."""
    if not isinstance(node, Entries):
        return _meaning_of(node, files)
    return _sorted((key.text, _meaning_of(value, files)) for key, value in node.entries)


def _sorted(keys: Iterable[tuple[str, Meaning]]) -> Meaning:
    return tuple(sorted(keys, key=lambda pair: pair[0]))


def _meaning_of(node: Node, files: Mapping[str, str]) -> Meaning:
    return (_meaning(node), *((path, files[path]) for path in sorted(_named(node, files))))


def _named(node: Node, files: Mapping[str, str]) -> frozenset[str]:
    return frozenset(_texts(node) & files.keys()) if files else frozenset()


def _meaning(node: Node) -> Meaning:
    match node:
        case Scalar():
            return type(node.value).__name__, repr(node.value)  # NaN equals itself
        case Items():
            return "items", *map(_meaning, node.items)
        case Entries():
            return "entries", *_of_entries(node.entries)
        case BrokenNode():
            return ("broken",)


def _of_entries(entries: Iterable[tuple[Scalar, Node]]) -> Meaning:
    """In their order, which is significant for columns."""
    return tuple((key.text, _meaning(node)) for key, node in entries)


def _texts(node: Node) -> set[str]:
    """Each text that stands as a value somewhere below: a Python file is named by its path."""
    match node:
        case Scalar():
            return {node.text}
        case Items():
            return {text for item in node.items for text in _texts(item)}
        case Entries():
            return {text for _, value in node.entries for text in _texts(value)}
        case BrokenNode():
            return set()

"""A strict reader of YAML 1.2 over the events of PyYAML's parsers: guarded by size, depth and
count.

Texts of ordinary size go through the Python parser, which gives the best messages. Larger ones go
through libyaml, which takes a fifteenth of the time and takes a tab in some more places. Only its
events are used: they nest without recursion, while composing with it can crash the process.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Protocol

import yaml

from controlplane.core.blueprint.problems import BlueprintRefused, Problems, shown
from controlplane.core.blueprint.text_places import ParamValue, Position
from controlplane.core.blueprint.yaml_nodes import (
    BrokenNode,
    Entries,
    Items,
    Node,
    NumberError,
    Scalar,
    YamlDocument,
    resolve,
)
from controlplane.core.blueprint.yaml_words import yaml_fault

MOST_BYTES = 5_000_000
MOST_DEPTH = 64
MOST_NODES = 200_000
LARGE = 50_000  # characters: the Python parser takes up to two seconds for as many

# Beside what YAML forbids: line breaks that editors do not count (NEL, LS, PS) and byte order marks
# inside a text.
_FORBIDDEN = re.compile(
    "[^\t\n\r -~\u00a0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]"
)
# Can be escaped, but no database or file name takes them
_FORBIDDEN_IN_VALUES = re.compile("[\0\ud800-\udfff]")
_ESCAPED_BYTE = re.compile("[\udc80-\udcff]")  # of a file that was read with `surrogateescape`
_MOST_CHARACTERS_SHOWN = 20


def read(
    text: str | bytes, file: str, problems: Problems, *, most_nodes: int = MOST_NODES
) -> YamlDocument | None:
    """The tree of one document, or None after a problem that ended the reading. Never raises on any
    input."""
    try:
        source = _source(text, file, problems)
        return YamlDocument(
            file,
            source,
            _NodeBuilder(file, problems, most_nodes).build(_events(source, file, problems)),
        )
    except BlueprintRefused:
        return None


def _source(text: str | bytes, file: str, problems: Problems) -> str:
    if len(text) > MOST_BYTES or (
        isinstance(text, str) and len(text.encode(errors="surrogatepass")) > MOST_BYTES
    ):
        raise problems.refuse(
            Position(file, 1, 1),
            "too-large",
            f"more than {MOST_BYTES:,} bytes",
            "split the dataflow",
        )
    source = (text if isinstance(text, str) else _decoded(text, file, problems)).removeprefix(
        "\ufeff"
    )
    if byte := _ESCAPED_BYTE.search(source):
        raise _not_utf8(_place(source, byte.start(), file), ord(byte[0]) - 0xDC00, problems)
    forbidden = list(islice(_FORBIDDEN.finditer(source), _MOST_CHARACTERS_SHOWN))
    for match in forbidden:
        message = f"the character U+{ord(match[0]):04X} is not allowed"
        problems.add(
            _place(source, match.start(), file),
            "invalid-character",
            message,
            "use an escape in double quotes",
        )
    if forbidden:
        raise BlueprintRefused
    return source


def _decoded(data: bytes, file: str, problems: Problems) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as e:
        place = _place(data[: e.start].decode(), e.start, file)
        raise _not_utf8(place, data[e.start], problems) from None


def _not_utf8(place: Position, byte: int, problems: Problems) -> BlueprintRefused:
    return problems.refuse(
        place, "invalid-encoding", f"byte 0x{byte:02X} is not UTF-8", "save the file as UTF-8"
    )


def _place(source: str, index: int, file: str) -> Position:
    before = source[:index].replace("\r\n", "\n").replace("\r", "\n")
    return Position(file, before.count("\n") + 1, len(before) - before.rfind("\n"))


def _loader(source: str) -> type[yaml.SafeLoader | yaml.CSafeLoader]:
    return yaml.SafeLoader if len(source) < LARGE else getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def _events(source: str, file: str, problems: Problems) -> Iterator[yaml.Event]:
    try:
        yield from yaml.parse(source, Loader=_loader(source))
    except yaml.MarkedYAMLError as e:
        fault = yaml_fault(e.context or "", e.problem or "")
        mark = e.context_mark if fault.at_opening else e.problem_mark
        place = _at(mark or e.problem_mark or e.context_mark, file)
        raise problems.refuse(place, "invalid-yaml", fault.message, fault.hint) from None
    except (
        yaml.YAMLError,
        ValueError,
        OverflowError,
    ):  # the parser converts some escapes without checks
        message = "an escape in double quotes stands for no character"
        raise problems.refuse(
            Position(file, 1, 1), "invalid-yaml", message, "look for \\U and \\x"
        ) from None


class _Mark(Protocol):
    """A position, in the parser's own class."""

    line: int
    column: int
    index: int


def _at(mark: _Mark | None, file: str) -> Position:
    return Position(file, mark.line + 1, mark.column + 1) if mark else Position(file, 1, 1)


def _index(mark: _Mark | None) -> int:
    return mark.index if mark else 0


@dataclass(slots=True)
class _Open:
    """A collection whose end has not come yet. In a mapping, keys and values alternate."""

    place: Position
    is_mapping: bool
    nodes: list[Node] = field(default_factory=list)


class _NodeBuilder:
    """Turns events into nodes with a stack of its own, so that no nesting can exhaust Python's."""

    def __init__(self, file: str, problems: Problems, most_nodes: int) -> None:
        self._file, self._problems, self._most_nodes = file, problems, most_nodes
        self._stack: list[_Open] = []
        self._roots: list[Node] = []
        self._count = 0

    def build(self, events: Iterator[yaml.Event]) -> Node:
        for event in events:
            self._take(event)
        return (
            self._roots[0]
            if self._roots
            else Scalar(Position(self._file, 1, 1), "", None, "", 0, 0)
        )

    def _take(self, event: yaml.Event) -> None:
        match event:
            case yaml.ScalarEvent():
                self._add(self._checked(event, self._scalar(event)))
            case yaml.MappingStartEvent() | yaml.SequenceStartEvent():
                self._open(event)
            case yaml.MappingEndEvent() | yaml.SequenceEndEvent():
                self._add(self._closed(self._stack.pop()), is_new=False)
            case yaml.AliasEvent():
                message = f"the alias *{shown(event.anchor or '')[1:-1]} is not allowed"
                self._problems.add(self._at(event), "yaml-anchor", message, "write the value out")
                self._add(BrokenNode(self._at(event)))
            case yaml.DocumentStartEvent() if self._roots:
                message = "a second document starts here"
                raise self._problems.refuse(
                    self._at(event), "several-documents", message, "one file is one dataflow"
                )
            case _:
                pass

    def _at(self, event: yaml.Event) -> Position:
        return _at(event.start_mark, self._file)

    def _open(self, event: yaml.CollectionStartEvent) -> None:
        place = self._at(event)
        if len(self._stack) >= MOST_DEPTH:
            raise self._problems.refuse(
                place, "too-deep", f"nested deeper than {MOST_DEPTH} levels", "flatten it"
            )
        self._checked(event, BrokenNode(place))
        self._counted(place)
        self._stack.append(_Open(place, isinstance(event, yaml.MappingStartEvent)))

    def _checked(self, event: yaml.NodeEvent, node: Node) -> Node:
        """Report anchors and tags. A tagged value would mean something else, so it is none."""
        if event.anchor is not None:
            message = f"the anchor &{shown(event.anchor)[1:-1]} is not allowed"
            self._problems.add(
                node.place, "yaml-anchor", message, "write the value out where it is used"
            )
        tag = getattr(event, "tag", None)
        if tag is None:
            return node
        self._problems.add(
            node.place, "yaml-tag", f"the tag {shown(tag)[1:-1]} is not allowed", "remove it"
        )
        return BrokenNode(node.place)

    def _add(self, node: Node, *, is_new: bool = True) -> None:
        if is_new:
            self._counted(node.place)
        (self._stack[-1].nodes if self._stack else self._roots).append(node)

    def _counted(self, place: Position) -> None:
        self._count += 1
        if self._count > self._most_nodes:
            raise self._problems.refuse(
                place,
                "too-many-nodes",
                f"more than {self._most_nodes:,} values",
                "split the dataflow",
            )

    def _scalar(self, event: yaml.ScalarEvent) -> Node:
        place, text = self._at(event), event.value
        if bad := _FORBIDDEN_IN_VALUES.search(text):
            message = f"the character U+{ord(bad[0]):04X} is not allowed in a value"
            self._problems.add(place, "invalid-character", message, "leave it out")
            return BrokenNode(place)
        try:
            value: ParamValue = text if event.style else resolve(text)
        except NumberError as e:
            self._problems.add(place, "invalid-number", str(e), "put it in quotes if it is text")
            return BrokenNode(place)
        return Scalar(
            place, text, value, event.style or "", _index(event.start_mark), _index(event.end_mark)
        )

    def _closed(self, opened: _Open) -> Node:
        if not opened.is_mapping:
            return Items(opened.place, tuple(opened.nodes))
        places: dict[str, Position] = {}
        pairs = zip(opened.nodes[::2], opened.nodes[1::2], strict=True)
        return Entries(
            opened.place, tuple((key, value) for k, value in pairs if (key := self._key(k, places)))
        )

    def _key(self, key: Node, places: dict[str, Position]) -> Scalar | None:
        if not isinstance(key, Scalar) or (key.value is None):
            if not isinstance(key, BrokenNode):
                self._problems.add(
                    key.place, "invalid-key", "a key must be a text", "put it in quotes"
                )
            return None
        if key.text in places:
            message = f"the key {shown(key.text)} was given on line {places[key.text].line} already"
            self._problems.add(key.place, "duplicate-key", message, "keep one of them")
            return None
        places[key.text] = key.place
        return key

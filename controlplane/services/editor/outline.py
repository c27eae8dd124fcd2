"""Where a place of a blueprint is: in which keys, before or behind a colon, or within a text.

It goes by indents and braces, line by line, so it works during typing, when the document is no
valid YAML.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from controlplane.core.blueprint.yaml_nodes import indent_of
from controlplane.services.editor.text_ranges import lines_of

_KEY = re.compile(
    r"(?P<indent> *)(?P<item>(?:- +)*)(?P<key>[A-Za-z_][\w.-]*|\"[^\"]*\"|'[^']*') *:(?P<rest> .*|$)"
)
_PAIR = re.compile(r" *([A-Za-z_][\w.-]*) *: *(.*)")
_OWNER = re.compile(r"([A-Za-z_][\w.-]*) *: *$")
_LONGEST_KEY = 200
_BLOCK = re.compile(r" *[|>][-+0-9]* *(#.*)?$")


@dataclass(frozen=True, slots=True)
class Spot:
    """`path`: the keys around the place, outermost first. `key`: the key whose value stands there;
    empty where a key itself does. `beside`: keys of the same mapping, with values that are plain
    words. `is_text`: within a text of several lines, or of one that is SQL. `typed`: the word
    before the place."""

    path: tuple[str, ...]
    key: str = ""
    typed: str = ""
    beside: dict[str, str] = field(default_factory=dict)
    is_text: bool = False


@dataclass(frozen=True, slots=True)
class _Line:
    indent: int  # of the key, behind dashes
    key: str
    value: str


def spot(text: str, line: int, column: int) -> Spot:
    """The keys, the word and the neighbours around a place, counted from 1."""
    lines = lines_of(text)[:line]
    before = lines[-1][: column - 1] if lines else ""
    above = lines[:-1]
    word = _typed(before)
    parents, block = _parents(above, indent_of(before))
    if block:
        return Spot(_path(parents[:-1]), parents[-1].key, word, is_text=True)
    if opened := _open_braces(before):
        return _of_braces(before, opened, parents, word)
    key_match = _KEY.match(before)
    if key_match is not None:
        value = key_match["rest"]
        is_text = key_match["key"] in ("sql", "check") and bool(value.strip())
        return Spot(
            _path(parents),
            key_match["key"],
            word,
            _beside(text, line, len(key_match["indent"] + key_match["item"])),
            is_text,
        )
    return Spot(_path(parents), "", word, _beside(text, line, indent_of(before)))


def _typed(before: str) -> str:
    """The word that a line ends with; dots belong to it."""
    start = len(before)
    while start and (before[start - 1].isalnum() or before[start - 1] in "_."):
        start -= 1
    return before[start:]


def components(text: str) -> dict[str, tuple[int, int]]:
    """Line and column of each component's name, counted from 1."""
    places: dict[str, tuple[int, int]] = {}
    is_within, depth = False, None
    for number, line in enumerate(lines_of(text), 1):
        if re.match(r"components *:", line):
            is_within, depth = True, None
        elif re.match(r"[^\s#]", line):
            is_within = False
        elif is_within and (match := _KEY.match(line)) and not match["item"]:
            indent = len(match["indent"])
            depth = indent if depth is None else depth
            if indent == depth:
                places.setdefault(match["key"].strip("\"'"), (number, indent + 1))
    return places


def component_at(text: str, line: int) -> str:
    """The component that a line belongs to; empty where it is in none."""
    inside = ""
    for name, (first, _) in components(text).items():
        if first <= line:
            inside = name
    return inside


def _parents(above: list[str], indent: int) -> tuple[list[_Line], bool]:
    """The keys that a line of this indent is below; and whether it is in a text that the last of
    them begins."""
    open_keys: list[_Line] = []
    block: _Line | None = None
    for line in above:
        if not line.strip():
            continue
        depth = indent_of(line)
        if block is not None and depth > block.indent:
            continue
        block = None
        match = _KEY.match(line)
        if match is None:
            continue
        depth = len(match["indent"] + match["item"])
        open_keys = [key for key in open_keys if key.indent < depth]
        open_keys.append(_Line(depth, match["key"].strip("\"'"), match["rest"].strip()))
        block = open_keys[-1] if _BLOCK.match(match["rest"]) else None
    if block is not None and indent > block.indent:
        return open_keys, True
    return [key for key in open_keys if key.indent < indent], False


def _open_braces(before: str) -> list[int]:
    """Where mappings in braces begin that are still open, outermost first. Those in quotes are
    text."""
    opened: list[int] = []
    quote = ""
    for index, char in enumerate(before):
        if quote:
            quote = "" if char == quote else quote
        elif char in "\"'":
            quote = char
        elif char == "{":
            opened.append(index)
        elif char == "}" and opened:
            opened.pop()
    return opened


def _of_braces(before: str, opened: list[int], parents: list[_Line], word: str) -> Spot:
    path, start = list(_path(parents)), 0
    for brace in opened:
        key = _OWNER.search(before[max(start, brace - _LONGEST_KEY) : brace])
        if key is not None:
            path.append(key[1])
        start = brace + 1
    pairs = _pairs(before[start:])
    beside = {
        pair_match[1]: pair_match[2].strip() for pair in pairs if (pair_match := _PAIR.match(pair))
    }
    value = _PAIR.match(pairs[-1])
    if value is not None:
        return Spot(tuple(path), value[1], word, beside, value[1] in ("sql", "check"))
    return Spot(tuple(path), "", word, beside)


def _pairs(inside: str) -> list[str]:
    """The parts between the commas of a mapping; those within lists, inner mappings and quotes part
    nothing."""
    parts, depth, quote, start = list[str](), 0, "", 0
    for index, char in enumerate(inside):
        if quote:
            quote = "" if char == quote else quote
        elif char in "\"'":
            quote = char
        elif char in "[{":
            depth += 1
        elif char in "]}":
            depth -= 1
        elif char == "," and depth <= 0:
            parts.append(inside[start:index])
            start = index + 1
    return [*parts, inside[start:]]


def _beside(text: str, line: int, indent: int) -> dict[str, str]:
    """Keys of the mapping that a line stands in."""
    lines = lines_of(text)
    pairs: dict[str, str] = {}
    for part in (lines[: line - 1][::-1], lines[line:]):
        for each in part:
            if not each.strip():
                continue
            match = _KEY.match(each)
            depth = len(match["indent"] + match["item"]) if match else indent_of(each)
            if depth < indent:
                break
            if match and depth == indent:
                pairs[match["key"]] = match["rest"].strip()
                if match["item"]:
                    break
    return pairs


def _path(keys: list[_Line]) -> tuple[str, ...]:
    return tuple(key.key for key in keys)

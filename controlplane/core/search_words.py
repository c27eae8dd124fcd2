"""Words to look for, and what of a dataset they are found in. Pure.

    late            a name, column, description, tag or owner with it, without regard to case; a partition whose key
                    begins so
    col:delay       a column     tag:gold  a tag     owner:ann  an owner     state:failed  a state
    is:overdue      newest data that is older than `freshness` allows
    "two words"     both, as they stand

All words have to be found.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

Field: TypeAlias = Literal[
    "name", "column", "description", "tag", "owner", "state", "is", "partition"
]
PREFIXES: Final[dict[str, Field]] = {
    "col": "column",
    "tag": "tag",
    "owner": "owner",
    "state": "state",
    "is": "is",
}
MOST_WORDS: Final = 10
AROUND: Final = 40  # characters of a description before and after a match
_WORD: Final = re.compile(r'(?:(\w+):)?(?:"([^"]*)"?|(\S+))')
# How far down a hit stands where it is found so; lower comes first.
_EXACT, _BEGINS, _NAME, _COLUMN, _TAG, _TEXT, _PARTITION = range(7)


@dataclass(frozen=True, slots=True)
class Word:
    """`text` in lower case; `written` as it came, as keys of partitions are looked up. `field`:
    None for any."""

    text: str
    written: str
    field: Field | None


@dataclass(frozen=True, slots=True)
class Facts:
    """The searchable facts about a dataset."""

    name: str
    columns: Sequence[str]
    description: str
    tags: Sequence[str]
    owner: str
    state: str
    marks: Sequence[str] = ()  # `overdue`


@dataclass(frozen=True, slots=True)
class Match:
    """Where a word was found, and how far down a hit stands for it."""

    field: Field
    text: str
    rank: int


def words_of(query: str) -> tuple[Word, ...]:
    """The first MOST_WORDS. A prefix that is none of ours belongs to the word."""
    words = []
    for prefix, quoted, plain in _WORD.findall(query):
        field = PREFIXES.get(prefix.lower())
        text = quoted or plain
        if prefix and field is None:
            text = f"{prefix}:{text}"
        if text:
            words.append(Word(text.lower(), text, field))
    return tuple(words[:MOST_WORDS])


def matches(word: Word, facts: Facts) -> list[Match]:
    """Where a word is found, apart from keys of partitions."""
    return list(_matches(word, facts))


def of_partition(key: str) -> Match:
    return Match("partition", key, _PARTITION)


def _matches(word: Word, facts: Facts) -> Iterator[Match]:
    text, field = word.text, word.field
    if field == "state":
        if facts.state == text.replace(" ", "_"):
            yield Match("state", facts.state, _TAG)
        return
    if field == "is":
        if text in facts.marks:
            yield Match("is", text, _TAG)
        return
    if field is None and text in facts.name:
        yield Match("name", facts.name, _name_rank(text, facts.name))
    if field in (None, "column"):
        yield from (
            Match("column", column, _COLUMN) for column in facts.columns if text in column.lower()
        )
    if field in (None, "tag"):
        yield from (Match("tag", tag, _TAG) for tag in facts.tags if text in tag.lower())
    if field in (None, "owner") and text in facts.owner.lower():
        yield Match("owner", facts.owner, _TAG)
    if field is None and (at := facts.description.lower().find(text)) >= 0:
        yield Match("description", _part(facts.description, at, len(text)), _TEXT)


def _name_rank(text: str, name: str) -> int:
    flow, _, own = name.partition(".")
    if text in (name, own, flow):
        return _EXACT
    return _BEGINS if name.startswith(text) or own.startswith(text) else _NAME


def _part(text: str, at: int, length: int) -> str:
    start, end = max(0, at - AROUND), at + length + AROUND
    before, after = "…" if start else "", "…" if end < len(text) else ""
    return f"{before}{' '.join(text[start:end].split())}{after}"

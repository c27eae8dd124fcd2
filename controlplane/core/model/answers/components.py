"""What components are and how they hang together. Part of `answers`."""

from __future__ import annotations

from typing_extensions import TypedDict  # pydantic reads no other TypedDict before Python 3.12


class ComponentEntry(TypedDict):
    """A component. `kind`: read, sql, python or write."""

    name: str
    kind: str
    description: str
    owner: str
    tags: list[str]


class ComponentEdge(TypedDict):
    """`target` reads `source` in this mode, for this reason; `copy`: it is a copy of it;
    `quarantine`: it has quarantined rows."""

    source: str
    target: str
    mode: str
    reason: str


class ComponentsAnswer(TypedDict):
    """Components and the edges between them."""

    items: list[ComponentEntry]
    edges: list[ComponentEdge]


class ComponentCode(TypedDict):
    """The text that a component runs. `line`: of its file, where the text begins, from 1."""

    language: str
    file: str
    line: int
    text: str


class DataflowText(TypedDict):
    """What a blueprint says of the whole."""

    description: str
    timezone: str


class RevisionEntry(TypedDict):
    """Who applied a revision, and when: seconds since 1970."""

    revision: int
    actor: str
    at: float

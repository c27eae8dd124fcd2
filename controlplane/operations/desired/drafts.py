"""A set of blueprints as it was sent, read as drafts that go by names of their own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from controlplane.core.blueprint import Draft, draft
from controlplane.core.errors import Problem


@dataclass(frozen=True, slots=True)
class Source:
    """A blueprint as it was sent. `name` is its file: an absolute one is the base of relative paths."""

    name: str
    text: str
    files: Mapping[str, str]


def read(sources: Sequence[Source]) -> list[Draft]:
    """A draft of each. A second one of a dataflow has a problem, and is checked under another name."""
    drafts: list[Draft] = []
    files: dict[str, str] = {}
    for number, source in enumerate(sources, 1):
        parsed = draft(source.text, file=source.name, files=source.files)
        if not parsed.dataflow:
            parsed = _renamed(parsed, f"#{number}")
        elif parsed.dataflow in files:
            parsed = _second(parsed, files[parsed.dataflow], number)
        files.setdefault(parsed.dataflow, source.name)
        drafts.append(parsed)
    return drafts


def _renamed(parsed: Draft, name: str) -> Draft:
    blueprint = replace(parsed.blueprint, dataflow=name) if parsed.blueprint else None
    return replace(parsed, dataflow=name, blueprint=blueprint)


def _second(parsed: Draft, other: str, number: int) -> Draft:
    at = parsed.place
    message = f"dataflow {parsed.dataflow} comes twice in this set, first in {other}"
    problem = Problem(at.file, at.line, at.column, "duplicate-dataflow", message, "rename one")
    return replace(_renamed(parsed, f"{parsed.dataflow}#{number}"), problems=(*parsed.problems, problem))

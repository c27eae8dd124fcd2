"""A set of blueprints as it was sent, read as drafts that go by names of their own.

Does not belong here: what the set means together (compiling), storing it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from controlplane.core.blueprint import Draft, draft
from controlplane.core.errors import Problem


@dataclass(frozen=True, slots=True)
class Source:
    """A blueprint as it was sent. `name` is its file: an absolute one tells what relative paths are relative to."""

    name: str
    text: str
    files: Mapping[str, str]


def read(sources: Sequence[Source]) -> list[Draft]:
    """A draft of each. A second one of a dataflow has a problem, and is looked at under another name."""
    found: list[Draft] = []
    files: dict[str, str] = {}
    for number, source in enumerate(sources, 1):
        one = draft(source.text, file=source.name, files=source.files)
        if not one.dataflow:
            one = _renamed(one, f"#{number}")
        elif one.dataflow in files:
            one = _second(one, files[one.dataflow], number)
        files.setdefault(one.dataflow, source.name)
        found.append(one)
    return found


def _renamed(one: Draft, name: str) -> Draft:
    blueprint = replace(one.blueprint, dataflow=name) if one.blueprint else None
    return replace(one, dataflow=name, blueprint=blueprint)


def _second(one: Draft, other: str, number: int) -> Draft:
    at = one.place
    message = f"dataflow {one.dataflow} comes twice in this set, first in {other}"
    problem = Problem(at.file, at.line, at.column, "duplicate-dataflow", message, "rename one")
    return replace(_renamed(one, f"{one.dataflow}#{number}"), problems=(*one.problems, problem))

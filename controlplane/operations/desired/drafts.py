"""A set of blueprints as it was sent, read as drafts that go by names of their own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from controlplane.core.blueprint import Draft, draft
from controlplane.core.model.branches import MAIN
from controlplane.core.model.revisions import Revision


@dataclass(frozen=True, slots=True)
class SentBlueprint:
    """A blueprint as it was sent. `name` is its file: an absolute one is the base of relative
    paths."""

    name: str
    text: str
    files: Mapping[str, str]

    def revision(self, dataflow: str, branch: str = MAIN, number: int = 1) -> Revision:
        """A revision of this text that nothing has stored."""
        return Revision(
            branch=branch,
            dataflow=dataflow,
            number=number,
            text=self.text,
            files=dict(self.files),
            file=self.name,
            uids={},
            actor="",
            request_id="",
            at=0.0,
        )


@dataclass(frozen=True, slots=True)
class DraftSet:
    """A set of blueprints, and the draft of each."""

    sources: Sequence[SentBlueprint]
    drafts: Sequence[Draft]

    @staticmethod
    def of(sources: Sequence[SentBlueprint]) -> DraftSet:
        """Read them. A second one of a dataflow has a problem, and is checked under another
        name."""
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
        return DraftSet(sources, drafts)

    @property
    def pairs(self) -> Iterator[tuple[Draft, SentBlueprint]]:
        return zip(self.drafts, self.sources, strict=True)

    @property
    def by_flow(self) -> dict[str, Draft]:
        return {parsed.dataflow: parsed for parsed in self.drafts}

    @property
    def revisions(self) -> list[Revision]:
        """Revisions of a set that is not stored."""
        return [source.revision(parsed.dataflow) for parsed, source in self.pairs]


def _renamed(parsed: Draft, name: str) -> Draft:
    blueprint = replace(parsed.blueprint, dataflow=name) if parsed.blueprint else None
    return replace(parsed, dataflow=name, blueprint=blueprint)


def _second(parsed: Draft, other: str, number: int) -> Draft:
    at = parsed.place
    message = f"dataflow {parsed.dataflow} comes twice in this set, first in {other}"
    problem = at.problem("duplicate-dataflow", message, "rename one")
    return replace(
        _renamed(parsed, f"{parsed.dataflow}#{number}"), problems=(*parsed.problems, problem)
    )

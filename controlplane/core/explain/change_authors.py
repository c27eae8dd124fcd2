"""Who applied a revision, forced a dataset, or paused it: read off the newest audited changes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from controlplane.core.compile.nodes import paused_by
from controlplane.core.model.revisions import AuditedChange, Revision


@dataclass(frozen=True, slots=True)
class Audit:
    """`changes`: the newest ones, newest first; `revisions`: the live ones, by dataflow."""

    changes: tuple[AuditedChange, ...] = ()
    revisions: Mapping[str, Revision] = field(default_factory=dict)

    def applied_by(self, dataflow: str, number: int) -> str:
        """Empty where it is too long ago."""
        live = self.revisions.get(dataflow)
        if live is not None and live.number == number:
            return live.actor
        stored = (
            change for action in ("apply", "revert") for change in self._of(action, {dataflow})
        )
        return next((change.actor for change in stored if change.after == number), "")

    def forced(self, dataset: str, by: float) -> AuditedChange | None:
        """The last request before this time to compute all of the dataset again."""
        refreshes = self._of("refresh", _names(dataset))
        return next(
            (change for change in refreshes if change.at <= by and _is_forcing(change)), None
        )

    def rolled_back(self, dataset: str, by: float) -> AuditedChange | None:
        """The last rollback of it before this time."""
        rollbacks = self._of("rollback", paused_by(dataset))
        return next((change for change in rollbacks if change.at <= by), None)

    def imported(self, dataset: str, by: float) -> AuditedChange | None:
        """The last import into it before this time."""
        imports = self._of("import", {dataset})
        return next((change for change in imports if change.at <= by), None)

    def paused(self, names: Iterable[str]) -> AuditedChange | None:
        """The last pause of one of these names."""
        return next(iter(self._of("pause", set(names))), None)

    def _of(self, action: str, targets: set[str]) -> Iterable[AuditedChange]:
        return (
            change
            for change in self.changes
            if change.action == action and change.target in targets
        )


def _names(dataset: str) -> set[str]:
    return {*paused_by(dataset), "*"}


def _is_forcing(change: AuditedChange) -> bool:
    return isinstance(change.after, Mapping) and bool(change.after.get("force"))

"""A plan of an edit as a value that shows itself and can be carried out."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from controlplane.cli import once, plan_views, service_run, views
from controlplane.cli.session import Session
from controlplane.client import Document, Headgate
from controlplane.core.model.answers import PlanAnswer, PlanBasis
from headgate.answer_cells import AnswerCells
from headgate.errors import as_refused
from headgate.shown import Shown


@dataclass(frozen=True, slots=True, repr=False)
class Plan:
    """The plan of applying blueprints. `apply` does just that, or nothing where the state has
    changed meanwhile."""

    client: Headgate
    session: Session
    documents: list[Document]
    answer: PlanAnswer
    branch_name: str = "main"
    names: dict[str, str] = field(default_factory=dict)
    cells: AnswerCells = field(default_factory=AnswerCells)

    @property
    def is_work(self) -> bool:
        """Whether anything would be computed."""
        return self.answer["state"] == "work"

    def apply(self, *, wait: bool = False, override: bool = False) -> Shown:
        """Store the blueprints. `wait`: until a service has made them so, which needs one.

        Raises Refused: `plan-moved` where the state that the plan rests on has changed.
        """
        with as_refused(self.names):
            service, started = self.session.require_loop() if wait else None, time.monotonic()
            since = self.client.run_progress(branch=self.branch_name)["since"] if wait else 0
            answer = self.client.carry_out(
                self.documents, self._basis, branch=self.branch_name, override=override
            )
            if service is None:
                return Shown(answer, views.applied(answer), cells=self.cells)
            flows = list(answer["revisions"]) or list(self._basis["revisions"])
            waiting = service_run.Waiting(service, self.client, self.branch_name, lambda _: None)
            done = waiting.settled(flows, since)
        reported_run = once.answer(done, spark_started=done["spark_started"], since=started)
        return Shown(reported_run, views.summary(reported_run), cells=self.cells)

    @property
    def _basis(self) -> PlanBasis:
        assert "basis" in self.answer  # of a dry run it is
        return self.answer["basis"]

    @property
    def _shown(self) -> Shown:
        view = [*plan_views.changes(self.answer), *views.plan(self.answer)]
        return Shown(self.answer, view, "plan", cells=self.cells)

    def __repr__(self) -> str:
        return repr(self._shown)

    def _repr_html_(self) -> str:
        return self._shown._repr_html_()

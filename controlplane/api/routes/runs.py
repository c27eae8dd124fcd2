"""Runs through a service: begin one, and look how it stands."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query

from controlplane.api import auth
from controlplane.api.calls import Branch, Called, JsonAnswer, Overriding, answer
from controlplane.api.routes.blueprints import Documents
from controlplane.api.routes.events import EventId
from controlplane.core import rest
from controlplane.core.model.answers import RunBegun, RunProgress
from controlplane.operations.desired import blueprints, run_start
from controlplane.operations.inspect import run_progress

router = auth.router("view", "all")


class Run(Documents):
    """Blueprints to store and to bring up to date. `accept_deletes` confirms a loss of source
    objects."""

    accept_deletes: bool = False


@router.answers(rest.BEGIN_RUN, dependencies=auth.needs("edit", "all"))
def begin(call: Overriding, branch: Branch, options: Run) -> JsonAnswer[RunBegun]:
    """Store blueprints, all or none, and list all that they read, without regard to `refresh`. The
    loop does the rest: see how it stands with GET and the answer's `since`. `failed` has tasks that
    had failed before: once all is settled, those that are still wanted can be tried again (`retry`
    with `tasks`)."""
    sources = tuple(blueprints.SentBlueprint(d.name, d.text, d.files) for d in options.blueprints)

    def work() -> JsonAnswer[RunBegun]:
        started = run_start.begin(
            call.context, branch, sources, accept_deletes=options.accept_deletes
        )
        run_start.note(call.context, branch, started)
        return answer(started)

    return call.once(work)


@router.answers(rest.RUN_PROGRESS)
def progress(
    call: Called,
    branch: Branch,
    dataflow: Annotated[list[str] | None, Query(max_length=1000)] = None,
    since: EventId = None,
) -> JsonAnswer[RunProgress]:
    """The work of dataflows and their upstream since an event (from now on by default), and how
    they stand."""
    return answer(run_progress.progress(call.context, branch, call.flows(dataflow) or (), since))

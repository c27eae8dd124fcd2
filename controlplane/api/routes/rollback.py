"""Going back: of datasets to an earlier generation, of dataflows to an earlier revision."""

from __future__ import annotations

from pydantic import Field

from controlplane.api import auth
from controlplane.api.calls import (
    Branch,
    ClosedBody,
    Dataflow,
    Expected,
    JsonAnswer,
    Overriding,
    answer,
    etag,
)
from controlplane.api.problem_json import RequestRefused
from controlplane.core import rest
from controlplane.core.errors import NotFound
from controlplane.core.model.addresses import Generation, Point, moment_of
from controlplane.core.model.answers import ApplyAnswer, RollbackAnswer
from controlplane.operations.desired import revert, rollback

router = auth.router("operate", "all")


class Rollback(ClosedBody):
    """Either the `generation` of a dataset, or `at`: a time in ISO 8601 with its zone, for a
    dataset or all of a dataflow. `force`: also where datasets would reflect different states of one
    source."""

    target: str = Field(max_length=1000)
    generation: int | None = Field(default=None, ge=1, le=10**15)
    at: str | None = Field(default=None, max_length=100)
    reason: str = Field(default="", max_length=1000, pattern=r"^[^\x00-\x1f\x7f]*$")
    force: bool = False


class Revert(ClosedBody):
    """`to`: the revision whose text is stored again."""

    to: int = Field(ge=1, le=10**9)
    dry_run: bool = False


@router.answers(rest.ROLLBACK)
def roll_back(call: Overriding, branch: Branch, options: Rollback) -> JsonAnswer[RollbackAnswer]:
    """Give datasets the rows of an earlier generation, and hold them there until `resume`. All of
    it happens, or nothing."""
    target, to = call.target(options.target), _to(options)
    if target is None:
        raise NotFound("there is no dataflow or dataset of this name")
    return call.once(
        lambda: answer(
            rollback.rollback(
                call.context, branch, target, to, reason=options.reason, force=options.force
            )
        )
    )


def _to(options: Rollback) -> Point:
    if options.generation is not None and options.at is None:
        return Generation(options.generation)
    if options.at is not None and options.generation is None:
        return moment_of(options.at)
    raise RequestRefused("invalid-request", "say one of generation and at")


@router.answers(rest.REVERT, dependencies=auth.needs("edit", "all"))
def revert_dataflow(
    call: Overriding, branch: Branch, dataflow: Dataflow, options: Revert, expected: Expected
) -> JsonAnswer[ApplyAnswer]:
    """Store the text of an earlier revision again, as a new one; answers as for blueprints."""

    def work() -> JsonAnswer[ApplyAnswer]:
        applied = revert.revert(
            call.context, branch, dataflow, options.to, dry_run=options.dry_run, expected=expected
        )
        return answer(applied, headers=etag(*applied["revisions"].values()))

    return call.once(work)

"""Making, listing, ending and merging branches."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from controlplane.api import auth
from controlplane.api.calls import (
    Branch,
    Called,
    ClosedBody,
    JsonAnswer,
    Overriding,
    answer,
    branch_of,
)
from controlplane.api.problem_json import RequestRefused
from controlplane.core import rest
from controlplane.core.model.answers import (
    BranchAnswer,
    BranchesAnswer,
    DropBranchAnswer,
    MergeAnswer,
)
from controlplane.core.model.branches import MAIN, NAME
from controlplane.operations.desired import branches, merging

router = auth.router("edit", "branches")


class NewBranch(ClosedBody):
    """`days`: until it ends by itself, unless it is edited; null keeps it. `redirect`: the table,
    path or topic that a write component writes to in the branch, by `dataflow.component`. `pinned`:
    it sees main as it is now. `publish`: datasets of its own also become Delta tables."""

    name: str = Field(pattern=f"^{NAME}$")
    source: str = Field(default=MAIN, pattern=f"^{NAME}$")
    days: float | None = Field(default=branches.KEPT_DAYS, gt=0, le=3660)
    protected: bool = False
    redirect: dict[str, str] = Field(default={})
    pinned: bool = False
    publish: bool = False


class Protection(ClosedBody):
    protected: bool


class Merge(ClosedBody):
    """`take` settles conflicts: `dataflow.component` to the side that wins. `when_ready`: only if
    nothing is left to compute."""

    into: str = Field(default=MAIN, pattern=f"^{NAME}$")
    dry_run: bool = False
    take: dict[str, Literal["ours", "theirs"]] = Field(default={})
    when_ready: bool = False


@router.answers(rest.CREATE_BRANCH)
def create(call: Called, new: NewBranch) -> JsonAnswer[BranchAnswer]:
    """Make a branch. It costs nothing, and computes nothing until something is edited in it."""

    def work() -> JsonAnswer[BranchAnswer]:
        if not call.has(branch=new.name):
            raise RequestRefused("forbidden", "this token may not make a branch of this name")
        if new.source != MAIN:  # each branch reads main, also one that is made from another branch
            branch_of(call, new.source)
        made = branches.create(
            call.context,
            new.name,
            source=new.source,
            days=new.days,
            protected=new.protected,
            redirect=new.redirect,
            pinned=new.pinned,
            publish=new.publish,
        )
        return answer(made, 201)

    return call.once(work)


@router.answers(rest.BRANCHES, dependencies=auth.needs("view", "all"))
def listing(call: Called) -> JsonAnswer[BranchesAnswer]:
    """All branches beside main."""
    return answer(branches.listing(call.context))


@router.answers(rest.BRANCH, dependencies=auth.needs("view", "all"))
def one(call: Called, branch: Branch) -> JsonAnswer[BranchAnswer]:
    """One branch. Main has no end."""
    return answer(branches.branch_named(call.context, branch))


@router.answers(rest.PROTECT_BRANCH, dependencies=auth.needs("admin"))
def protect(call: Called, branch: Branch, options: Protection) -> JsonAnswer[BranchAnswer]:
    """Whether a branch changes by merges alone."""
    return answer(branches.protect(call.context, branch, protected=options.protected))


@router.answers(rest.UPDATE_BRANCH)
def update(call: Called, branch: Branch) -> JsonAnswer[BranchAnswer]:
    """Have a pinned branch see main as it is now."""
    return call.once(lambda: answer(branches.update(call.context, branch)))


@router.answers(rest.DELETE_BRANCH)
def delete(call: Overriding, branch: Branch) -> JsonAnswer[DropBranchAnswer]:
    """End a branch. What it computed and nothing else refers to is collected later."""
    return answer(branches.delete(call.context, branch))


@router.answers(rest.MERGE_BRANCH)
def merge(call: Called, branch: Branch, body: Merge | None = None) -> JsonAnswer[MergeAnswer]:
    """Bring the edits of a branch into another one, all or nothing; its results come along."""
    options = body or Merge()

    def work() -> JsonAnswer[MergeAnswer]:
        ready = options.when_ready
        branch_of(call, options.into)
        merged = merging.merge_branch(
            call.context,
            branch,
            options.into,
            dry_run=options.dry_run,
            take=options.take,
            when_ready=ready,
        )
        return answer(merged)

    return call.once(work)

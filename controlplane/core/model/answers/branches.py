"""Branches, and how two of them differ."""

from __future__ import annotations

from typing import Literal

from typing_extensions import TypedDict  # pydantic reads no other TypedDict before Python 3.12

from controlplane.core.model.answers.plans import PlanAnswer


class BranchAnswer(TypedDict):
    """A branch. Main was made from no branch (null), and all is its own. `dataflows` were
    edited in it; `datasets` counts those with states of their own. `redirects`: places that its
    write components write to, by component. `pinned`: it sees main as it was when it was made or
    last updated. `publish`: datasets of its own are Delta tables, too; those of main always are.
    """

    name: str
    source: str | None
    created_at: str | None
    actor: str | None
    expires_at: str | None
    protected: bool
    redirects: dict[str, str]
    pinned: bool
    publish: bool
    dataflows: list[str]
    datasets: int


class BranchesAnswer(TypedDict):
    """All branches beside main, in order of their names."""

    items: list[BranchAnswer]
    next: None


class DropBranchAnswer(TypedDict):
    """The branch that was ended."""

    deleted: str


class MergeAnswer(TypedDict):
    """What a merge brought into a branch, or would bring: revisions of dataflows, dataflows that
    ended, components that were taken, and the plan of the work there afterwards."""

    source: str
    into: str
    dry_run: bool
    revisions: dict[str, int]
    ended: list[str]
    taken: list[str]
    plan: PlanAnswer


class DatasetDifference(TypedDict):
    """How one dataset differs between two branches. Partitions and rows count from the first to the
    second. `same_inputs`: whether both states were made from the same sources."""

    dataset: str
    state: Literal["added", "removed", "changed", "equal"]
    added: int
    removed: int
    changed: int
    moved: int
    rows: int
    same_inputs: bool
    partitions: list[str]


class ComponentDifference(TypedDict):
    """How the text of one component differs between two branches. `component` is empty for the text
    around them."""

    dataflow: str
    component: str
    state: Literal["added", "removed", "changed"]
    diff: list[str]


class BranchDifference(TypedDict):
    """How two branches differ: a page of components and datasets, in order of their names. `next`:
    the `after` of the next page. `shared` counts the datasets that both have from main."""

    one: str
    other: str
    components: list[ComponentDifference]
    datasets: list[DatasetDifference]
    shared: int
    next: str | None

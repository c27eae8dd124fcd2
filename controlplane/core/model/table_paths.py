"""Where the table of a dataset lies in the lake."""

from __future__ import annotations

from controlplane.core.model.revisions import MAIN


def table_path(namespace: str, branch: str, dataset: str) -> str:
    """The folder of a dataset's table in a branch, relative to the lake: no two branches share a
    Delta log.

    `table_path("default", "main", "air.flights")` is `default/air/flights`; in branch `try` it is
    `default/air/flights/_branches/try`.
    """
    return (
        _folder(namespace, dataset)
        if branch == MAIN
        else f"{branch_tables(namespace, dataset)}/{branch}"
    )


def branch_tables(namespace: str, dataset: str) -> str:
    """The folder that has one for each branch with a table of the dataset. Readers of main's table
    pass it over."""
    return f"{_folder(namespace, dataset)}/_branches"


def attempt_folder(prefix: str, dataset: str) -> str:
    """The folder of another dataset that an attempt writes to, for a follower. `prefix`: that of
    the attempt.

    `attempt_folder("default/air/flights/_frags/ab/ab12", "air.late")` is
    `default/air/late/_frags/ab/ab12`.
    """
    namespace, _, _ = prefix.partition("/")
    _, _, own = prefix.partition("/_frags/")
    return f"{_folder(namespace, dataset)}/_frags/{own}"


def _folder(namespace: str, dataset: str) -> str:
    flow, _, name = dataset.partition(".")
    return f"{namespace}/{flow}/{name}"

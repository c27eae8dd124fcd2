"""Where the table of a dataset lies in the lake. Does not belong here: the files of its rows."""

from __future__ import annotations

from controlplane.core.model.revisions import MAIN


def table_path(namespace: str, branch: str, dataset: str) -> str:
    """The folder of a dataset's table in a branch, relative to the lake: no two branches share a Delta log.

    `table_path("default", "main", "air.flights")` is `default/air/flights`; in branch `try` it is
    `default/air/flights/_branches/try`.
    """
    flow, _, name = dataset.partition(".")
    path = f"{namespace}/{flow}/{name}"
    return path if branch == MAIN else f"{path}/_branches/{branch}"

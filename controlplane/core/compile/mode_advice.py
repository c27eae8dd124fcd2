"""What to write so that an input which is read whole is read in part."""

from __future__ import annotations

from collections.abc import Mapping

from controlplane.core import sql
from controlplane.core.blueprint import SqlTransform
from dataplane.contract.jobs import Mode


def of_sql(
    body: SqlTransform, name: str, verdict: sql.Verdict, declared: Mapping[str, Mode]
) -> str:
    """For an input of a query, by the proven mode and the declared modes. Empty for a query
    that stands in no blueprint, such as that of `cdc`."""
    if not body.is_written:
        return ""
    unsplit = [other for other, mode in declared.items() if mode != "each"]
    if name in unsplit:
        return f"to be read in part, leave `{name}` out of `inputs:`, so that its mode is inferred"
    if verdict.mode == "each" and unsplit:
        return f"to be read in part, leave `{unsplit[0]}` out of `inputs:`, so that its mode is inferred"
    if not body.partition_by:
        return "to be read by a key, name in `partition_by:` the columns that its rows are grouped or joined by"
    key = ", ".join(part.column for part in body.partition_by)
    if sql.SLIDING in verdict.reason:
        return (
            "to be read in part, aggregate by the slide alone in a transform before, for example "
            "`window(at, '1 minute')`, and the windows of its rows here"
        )
    if any(part.window and not part.column for part in verdict.keys):
        return f"to be read by {key}, take a granule that the windows divide, and the time zone UTC"
    if verdict.mode == "by":
        return f"to be read by {key}, select {key} as a column of each input, not as an expression"
    return f"to be read by {key}, let each GROUP BY, join and window hold {key}; or declare `{name}: by`"


def of_python() -> str:
    """For an input of a function, which declares its modes."""
    return (
        "to be read in part, declare `each`; or `by`, with the columns of a key in `partition_by:`"
    )

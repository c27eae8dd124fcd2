"""What work cost, by dataflow, component, owner and day, and what did not have to run. Changes
nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Final

from controlplane.core.model.answers.spending import CostAnswer, CostBy, CostFigures, CostRow
from controlplane.core.model.efforts import DAY_S, Effort
from controlplane.operations.context import Context
from controlplane.operations.planning.snapshot import desired
from controlplane.operations.upkeep import collect
from controlplane.ports.store import Tx

MOST_EFFORTS: Final = 100_000  # datasets times days that one answer counts
LONGEST_DAYS: Final = int(collect.DAYS)  # records of earlier days are collected


@dataclass(frozen=True, slots=True)
class Spending:
    """The efforts of whole days from `first_day` on, and the owners of datasets that have one."""

    first_day: int
    efforts: Sequence[Effort]
    owners: Mapping[str, str]


def read(
    ctx: Context,
    tx: Tx,
    branch: str,
    days: int,
    sees: Callable[[str], bool],
    most: int = MOST_EFFORTS,
) -> Spending:
    """The efforts of the last days, today among them; of fewer days where they are more than
    `most`. `sees`: whether a dataset may be in the answer."""
    first_day = int(tx.now() // DAY_S) - days + 1
    efforts = tx.past_attempts.efforts(branch, first_day * DAY_S, most + 1)
    nodes = desired(tx, branch, namespace=ctx.namespace).nodes
    if len(efforts) > most:  # the earliest day is not whole
        first_day = efforts[-1].day + 1
    visible = [e for e in efforts if e.day >= first_day and sees(e.dataset)]
    named = {e.dataset for e in visible if e.dataset in nodes}
    return Spending(first_day, visible, {name: nodes[name].component.owner for name in named})


def cost(ctx: Context, branch: str, days: int, target: str | None, limit: int) -> CostAnswer:
    """Sums over the datasets that the actor sees; over those of a dataflow, or one. The first
    `limit` rows of each table."""
    with ctx.read() as tx:
        spending = read(ctx, tx, branch, days, partial(_is_shown, ctx, target))
    owners = spending.owners
    return {
        "branch": branch,
        "since": day_text(spending.first_day),
        "total": _figures(spending.efforts),
        "dataflows": _by(spending.efforts, lambda e: e.dataset.partition(".")[0], limit),
        "components": _by(spending.efforts, lambda e: e.dataset, limit),
        "owners": _by(spending.efforts, lambda e: owners.get(e.dataset, ""), limit),
        "days": _by(spending.efforts, lambda e: day_text(e.day), limit, newest_first=True),
    }


def day_text(day: int) -> str:
    """Such as 2026-11-28."""
    first = datetime.fromtimestamp(0, UTC)
    return (first + timedelta(days=day)).date().isoformat()


def _is_shown(ctx: Context, target: str | None, dataset: str) -> bool:
    is_of_target = target is None or target in (dataset, dataset.partition(".")[0])
    return is_of_target and ctx.sees(dataset)


def _by(
    efforts: Iterable[Effort],
    name_of: Callable[[Effort], str],
    limit: int,
    *,
    newest_first: bool = False,
) -> CostBy:
    """One row for each name: the dearest first, or in order of days."""
    groups: dict[str, list[Effort]] = {}
    for effort in efforts:
        groups.setdefault(name_of(effort), []).append(effort)
    rows: list[CostRow] = [{"name": name, **_figures(group)} for name, group in groups.items()]
    rows.sort(key=lambda row: row["name"], reverse=newest_first)
    if not newest_first:
        rows.sort(key=lambda row: row["seconds"], reverse=True)
    return {"rows": rows[:limit], "left_out": max(0, len(rows) - limit)}


def _figures(efforts: Sequence[Effort]) -> CostFigures:
    return {
        "attempts": sum(e.attempts for e in efforts),
        "tasks": sum(e.tasks for e in efforts),
        "seconds": round(sum(e.seconds for e in efforts), 3),
        "bytes_read": sum(e.bytes_read for e in efforts),
        "bytes_written": sum(e.bytes_written for e in efforts),
        "reused": sum(e.reused for e in efforts),
        "unchanged": sum(e.unchanged for e in efforts),
    }

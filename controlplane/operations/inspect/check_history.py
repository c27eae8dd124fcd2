"""What the expectations of a dataset found over its generations, and the query of rows that fail
one. Changes nothing."""

from __future__ import annotations

from typing import Final

from sqlglot import exp

from controlplane.core.blueprint.model import Expectation
from controlplane.core.compile.compiled_checks import record_key
from controlplane.core.errors import NotFound
from controlplane.core.model.answers.datasets import CheckPoint
from controlplane.core.model.memos import results_in
from controlplane.operations.context import Context
from controlplane.operations.inspect.datasets import newest_generations
from controlplane.operations.planning.snapshot import desired

GENERATIONS: Final = 20


def of_dataset(ctx: Context, branch: str, name: str) -> dict[str, list[CheckPoint]]:
    """The points of each expectation by its name, the oldest generation first. A generation whose
    results are not known any more has no point."""
    points: dict[str, list[CheckPoint]] = {}
    with ctx.read() as tx:
        states = newest_generations(tx, branch, name, GENERATIONS)
        keys = {s.generation: record_key(s.branch, name, s.generation) for s in states}
        memos = tx.traces.memos(keys.values())
    for state in reversed(states):
        memo = memos.get(keys[state.generation])
        for check in results_in(memo).values() if memo else ():
            if check["rows"] is None or check["failing"] is None:
                continue
            point: CheckPoint = {
                "generation": state.generation,
                "rows": check["rows"],
                "failing": check["failing"],
            }
            points.setdefault(check["name"], []).append(point)
    return points


def failing_rows(ctx: Context, branch: str, name: str, check: str) -> str:
    """The query of committed rows that fail an expectation, under the name of its result. Raises
    NotFound, also for one that looks at no single row."""
    with ctx.read() as tx:
        node = desired(tx, branch, namespace=ctx.namespace).nodes.get(name)
    expectations = () if node is None else node.component.expect
    for expectation in expectations:
        if check == expectation.name and (expectation.check or expectation.unique):
            return f"SELECT *\nFROM {name}\nWHERE {_fails(expectation, name)}\nLIMIT 100"
    raise NotFound(f"{name} has no expectation {check!r} on rows")


def _fails(expectation: Expectation, name: str) -> str:
    """A condition that is NULL holds. A row with a NULL in a unique column repeats no other."""
    if not expectation.unique:
        # On a line of its own, as it may end in a comment
        return f"NOT (\n{expectation.check.strip()}\n)"
    columns = ", ".join(exp.to_identifier(c, quoted=True).sql("spark") for c in expectation.unique)
    repeated = f"SELECT {columns} FROM {name} GROUP BY {columns} HAVING count(*) > 1"
    return f"({columns}) IN ({repeated})"

"""Which generations of a dataflow's datasets go together at a time. Changes nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Literal

from controlplane.core.errors import GenerationGone, NotFound
from controlplane.core.explain.consistent_states import agree, consistent
from controlplane.core.model.addresses import Moment
from controlplane.core.model.answers import DatasetGeneration, GenerationsAnswer
from controlplane.core.model.states import State
from controlplane.operations.context import Context
from controlplane.operations.inspect import json_views
from controlplane.operations.inspect.datasets import kept_states
from controlplane.operations.inspect.time_travel import state_of
from controlplane.operations.planning.snapshot import desired
from controlplane.ports.store import Tx


def generations(
    ctx: Context,
    branch: str,
    dataflow: str,
    at: Moment | None = None,
    *,
    is_consistent: bool = False,
) -> GenerationsAnswer:
    """Generations of the datasets that the dataflow declares now. `at`: the newest by then; by now
    by default. `is_consistent`: the newest by then that were made of the same sources. Raises
    NotFound, GenerationGone, NotConsistent."""
    with ctx.read() as tx:
        names = _datasets(ctx, tx, branch, dataflow)
        by_dataset: Mapping[str, State | GenerationGone | None]
        if is_consistent:
            by_dataset = consistent(names, partial(_until, tx, branch, at))
        else:
            by_dataset = {name: _state_or_gone(tx, branch, name, at) for name in names}
        return {
            "dataflow": dataflow,
            "at": json_views.instant(tx.now() if at is None else at.milliseconds / 1000),
            "consistent": agree(state for state in by_dataset.values() if isinstance(state, State)),
            "items": [_item(ctx, name, state) for name, state in by_dataset.items()],
        }


def _datasets(ctx: Context, tx: Tx, branch: str, dataflow: str) -> list[str]:
    """In the order in which they are computed."""
    if dataflow not in tx.blueprints.revisions(branch, [dataflow]):
        raise NotFound(f"there is no dataflow {dataflow} in branch {branch}")
    nodes = desired(tx, branch, namespace=ctx.namespace)
    is_of = f"{dataflow}."
    return [name for name in nodes.order if name.startswith(is_of) and nodes.nodes[name].has_rows]


def _state_or_gone(
    tx: Tx, branch: str, name: str, at: Moment | None
) -> State | GenerationGone | None:
    try:
        return state_of(tx, branch, name, at)
    except NotFound:
        return None
    except GenerationGone as error:
        return error


def _until(tx: Tx, branch: str, at: Moment | None, name: str) -> Iterator[State]:
    """The states of a dataset by then, newest first."""
    newest = _state_or_gone(tx, branch, name, at)
    if isinstance(newest, GenerationGone):
        raise newest
    if newest is not None:
        yield newest
        yield from kept_states(tx, branch, name, newest.seq)


def _item(ctx: Context, name: str, state: State | GenerationGone | None) -> DatasetGeneration:
    if not isinstance(state, State):
        presence: Literal["none", "gone"] = "none" if state is None else "gone"
        nothing: DatasetGeneration = {
            "dataset": name,
            "found": presence,
            "generation": None,
            "at": None,
            "partitions": None,
            "rows": None,
            "root": None,
            "sources": {},
        }
        return nothing
    return {
        "dataset": name,
        "found": "kept",
        "generation": state.generation,
        "at": json_views.instant(state.at),
        "partitions": state.partitions,
        "rows": state.rows,
        "root": state.root.hex(),
        "sources": {
            source: version.hex() for source, version in state.cut.items() if ctx.sees(source)
        },
    }

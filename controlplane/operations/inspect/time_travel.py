"""The state of a dataset that an address means. Changes nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from controlplane.core.blueprint.model import QUARANTINE
from controlplane.core.blueprint.problems import did_you_mean
from controlplane.core.errors import GenerationGone, NotFound
from controlplane.core.model.addresses import Generation, Moment, Point
from controlplane.core.model.states import State
from controlplane.operations.inspect.json_views import instant
from controlplane.ports.store import Tx


def no_name(_: str) -> bool:
    """The error for names that must not be revealed."""
    return False


def state_of(
    tx: Tx,
    branch: str,
    name: str,
    point: Point | None = None,
    *,
    sees: Callable[[str], bool] = no_name,
) -> State:
    """The newest state by default. `sees`: which datasets an error may suggest in the place of a
    missing one. Raises NotFound, and GenerationGone where the requested state is no longer kept."""
    state = tx.states.find(branch, name, point)
    if state is None:
        raise _missing(tx, branch, name, point, sees)
    if isinstance(point, Moment) and is_before_gap(tx, branch, state, point):
        raise _generation_gone(tx, branch, name, point)
    return state


def no_dataset(branch: str, name: str, names: Iterable[str]) -> NotFound:
    """The error with the nearest of the names that may be shown."""
    hint = did_you_mean(name, names)
    return NotFound(f"there is no dataset {name} in branch {branch}{'; ' if hint else ''}{hint}")


def _missing(
    tx: Tx, branch: str, name: str, point: Point | None, sees: Callable[[str], bool]
) -> NotFound | GenerationGone:
    """Why there is no such state. Retention takes the oldest states, so a state before the oldest
    one may have existed."""
    newest, oldest = tx.states.find(branch, name), tx.states.oldest(branch, name)
    if newest is None and oldest is None:
        names = [
            f"{flow}.{own}"
            for flow, revision in tx.blueprints.revisions(branch).items()
            for own in revision.uids
        ]
        if name.removesuffix(QUARANTINE) not in names:
            return no_dataset(branch, name, filter(sees, names))
    if newest is None or oldest is None or point is None:
        return NotFound(f"dataset {name} has no committed data yet")
    if isinstance(point, Generation) and point.number > newest.generation:
        return NotFound(
            f"dataset {name} has no generation {point}; its newest is {newest.generation}"
        )
    if isinstance(point, Moment) and oldest.seq == 1:
        first = f"its first generation was committed at {instant(oldest.at)}"
        return NotFound(f"dataset {name} had no data at {point}; {first}")
    return _generation_gone(tx, branch, name, point)


def _generation_gone(tx: Tx, branch: str, name: str, point: Point) -> GenerationGone:
    what = (
        f"generation {point} of dataset {name}"
        if isinstance(point, Generation)
        else f"dataset {name} at {point}"
    )
    oldest = tx.states.oldest(branch, name)
    hint = (
        f"; the oldest that is kept is generation {oldest.generation}, of {instant(oldest.at)}"
        if oldest
        else ""
    )
    return GenerationGone(f"{what} is not kept any more{hint}")


def is_before_gap(tx: Tx, branch: str, state: State, at: Moment) -> bool:
    """Whether states that came right after this one are gone: which one counted at a time between
    is not known, but the one that came then. Retention takes the oldest states but those that a
    pinned branch sees, so there may be a gap behind such a one of main's; and in a branch, behind
    main's that its own ones went on from."""
    if Moment.of(state.at) == at:
        return False
    following = tx.states.history(branch, state.dataset, 1, state.seq + 2)
    if following and following[0].seq > state.seq:
        return False
    newest = tx.states.find(branch, state.dataset)
    return newest is not None and newest.seq > state.seq

"""The foreseen effect of an operator's request."""

from __future__ import annotations

from typing_extensions import TypedDict  # pydantic reads no other TypedDict before Python 3.12

from controlplane.core.model.answers.states import State


class ForeseenItem(TypedDict):
    """One dataset, copy or dataflow of a request. `state`: None of a dataflow of several. `tasks`:
    that are started, or taken back; `seconds`: what so many took before, None where that is not
    known; `sentence`: the same in words."""

    name: str
    state: State | None
    tasks: int
    seconds: float | None
    sentence: str


class ForeseenEffect(TypedDict):
    """`readers`: datasets and copies behind those that are meant. `seconds`: of those that are
    known."""

    wish: str
    items: list[ForeseenItem]
    tasks: int
    seconds: float | None
    readers: int

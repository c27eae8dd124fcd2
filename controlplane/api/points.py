"""Which state of a dataset a route is to read: `generation=` or `at=`; the newest where neither is
given."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from fastapi import Depends, Query

from controlplane.api.problem_json import RequestRefused
from controlplane.core.model import addresses

Number: TypeAlias = Annotated[int | None, Query(ge=0, le=2**53)]
Time: TypeAlias = Annotated[
    str | None,
    Query(
        max_length=100,
        description="A time with its zone: the newest state that was committed by then.",
    ),
]


def _point(generation: Number = None, at: Time = None) -> addresses.Point | None:
    if generation is not None and at is not None:
        raise RequestRefused(
            "invalid-request", "generation and at both say which state is meant; send one of them"
        )
    return moment(at) if generation is None else addresses.generation_of(generation)


def moment(at: str | None) -> addresses.Moment | None:
    """The time of a query."""
    return None if at is None else addresses.moment_of(at)


Point: TypeAlias = Annotated[addresses.Point | None, Depends(_point)]

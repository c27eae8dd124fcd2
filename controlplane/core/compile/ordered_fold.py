"""The ordered fold: a transform that reads its own partition before, in the order of keys, beside
its inputs' rows.

State k is f(state k-1, inputs k); before the first one there are no rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from controlplane.core.blueprint import Component, PythonTransform, SqlTransform
from controlplane.core.blueprint.model import Previous
from controlplane.core.errors import Problem
from controlplane.core.schema.ddl_schemas import InvalidSchema, parse_ddl
from dataplane.contract.identity import schema_id
from dataplane.contract.schemas import Schema

MODE: Final = "previous"
REASON = "the partition before, in the order of keys"


@dataclass(frozen=True, slots=True)
class Fold:
    """The partition before as an input: its name in the code, and the columns of every
    partition."""

    name: str
    schema: Schema

    @property
    def logic(self) -> dict[str, object]:
        """The part of a fold that decides which rows there are."""
        return {"name": self.name, "schema": schema_id(self.schema)}


def name_of(component: Component) -> str:
    """What the code calls the partition before; empty where it does not read it."""
    body = component.body
    return (
        body.previous.name
        if isinstance(body, SqlTransform | PythonTransform) and body.previous
        else ""
    )


def in_words(fold: Fold, key: str, before: str | None) -> str:
    """Why a partition is another one though its inputs are the same. `before`: the key of the one
    before it."""
    if before is None:
        return f"{key}: no partition is before it any more ({fold.name})"
    return f"{key}: {fold.name}, the partition before ({before}), is another one"


def fold(
    component: Component,
    previous: Previous,
    modes: Iterable[tuple[str, str]],
    read: Iterable[str] | None,
) -> tuple[Fold | None, list[Problem]]:
    """The fold, and all that is wrong with it. `modes` of the other inputs by name; `read`: what
    the SQL names."""
    previous_fold, problems = None, list(_problems(component, previous, list(modes), read))
    try:
        previous_fold = Fold(previous.name, parse_ddl(previous.schema))
    except InvalidSchema as e:
        problems.append(
            previous.schema_place.problem(e.code, str(e), "for example: day STRING, total BIGINT")
        )
    return previous_fold, problems


def _problems(
    component: Component,
    previous: Previous,
    modes: Sequence[tuple[str, str]],
    read: Iterable[str] | None,
) -> Iterator[Problem]:
    if read is not None and previous.name not in read:
        yield previous.place.problem(
            "unused-input", f"the SQL does not read {previous.name!r}", "remove it"
        )
    for name, _ in (m for m in modes if m[1] == "by"):
        message, hint = f"{name} is read `by` a key in a fold", "read it `each` or `all`"
        yield previous.place.problem("not-supported", message, hint)
    if not any(mode in ("each", "by") for _, mode in modes):
        how = ", ".join(f"{name} is read `{mode}`" for name, mode in modes) or "there are no others"
        message = f"no input says which partitions there are: {how}"
        hint = f"declare one: inputs: {{{previous.name}: previous, {modes[0][0] if modes else 'events'}: each}}"
        yield previous.place.problem("missing-input", message, hint)
    for expectation in (e for e in component.expect if e.on_fail == "quarantine"):
        hint = "on_fail: drop, or quarantine the rows of what it reads"
        yield expectation.place.problem(
            "not-supported", "a fold cannot keep rows that it takes out", hint
        )

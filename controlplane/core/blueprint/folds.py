"""The language of folds: `self: previous`, a dataset's own partition before as an input of the
next."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from controlplane.core.blueprint.model import InputHint, Previous
from controlplane.core.blueprint.problems import Problems
from controlplane.core.blueprint.text_forms import SELF
from controlplane.core.blueprint.text_places import Position
from controlplane.core.blueprint.yaml_nodes import Scalar

PREVIOUS: Final = "previous"
_INSTEAD = "write self: previous, or name: {from: self, mode: previous}"


def split(
    hints: Sequence[InputHint], problems: Problems
) -> tuple[tuple[InputHint, ...], InputHint | None]:
    """The inputs that are other datasets, and the one that is the partition before."""
    others = tuple(h for h in hints if h.mode != PREVIOUS and not _is_self(h))
    own = list(_own(hints, problems))
    for extra in own[1:]:
        problems.add(
            extra.place,
            "conflicting-keys",
            "the partition before has a name already",
            "remove this one",
        )
    return others, own[0] if own else None


def _is_self(hint: InputHint) -> bool:
    return SELF in (hint.name, hint.dataset)


def _own(hints: Sequence[InputHint], problems: Problems) -> Iterator[InputHint]:
    for hint in hints:
        if hint.name == SELF and hint.dataset not in (None, SELF):
            problems.add(
                hint.place, "invalid-name", "self is this dataset", "give the input another name"
            )
        elif _is_self(hint) and hint.mode == PREVIOUS:
            yield hint
        elif _is_self(hint):
            problems.add(
                hint.place,
                "self-reference",
                "of itself a dataset reads the partition before only",
                _INSTEAD,
            )
        elif hint.mode == PREVIOUS:
            problems.add(hint.place, "invalid-value", "only self has a partition before", _INSTEAD)


def previous(
    own: InputHint | None, schema: str, at: Position, keys: dict[str, Scalar], problems: Problems
) -> Previous | None:
    """The fold, if it is one. `keys`: the keys `schema` and `partition_by` where the transform has
    them; `at`: where the schema stands."""
    if own is None:
        if "schema" in keys:
            message = "'schema' is for transforms that read their own partition before"
            hint = "remove it, or add self: previous to the inputs"
            problems.add(keys["schema"].place, "not-supported", message, hint)
        return None
    if "schema" not in keys:
        hint = (
            'the columns of each partition, such as schema: "day STRING, total BIGINT"; the first '
            "reads no rows of them"
        )
        problems.add(own.place, "missing-key", f"{own.name}: previous needs the key 'schema'", hint)
    if "partition_by" in keys:
        message = "the partitions of a fold are those of the inputs that it reads `each`"
        hint = "partition rows by the key in a component of their own, and read that one `each`"
        problems.add(keys["partition_by"].place, "not-supported", message, hint)
    return Previous(own.name, schema, own.place, at)

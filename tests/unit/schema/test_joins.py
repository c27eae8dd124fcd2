"""The join of types is a join: the order of files does not count, nor how they are grouped."""

from __future__ import annotations

from functools import reduce

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataplane.contract.joins import CONFLICT, grow, is_held, join
from dataplane.contract.schemas import Type, field_of, struct_of
from dataplane.contract.types import NOTHING, fit

pytestmark = pytest.mark.property

PLAIN = [
    "boolean",
    "byte",
    "short",
    "integer",
    "long",
    "float",
    "double",
    "string",
    "binary",
    "date",
]
TIMES = ["timestamp", "timestamp_ntz"]
DECIMALS = st.integers(1, 38).flatmap(
    lambda p: st.integers(0, p).map(lambda s: f"decimal({p},{s})")
)
LEAVES = st.one_of(st.sampled_from([*PLAIN, *TIMES, NOTHING]), DECIMALS)


def nested(inner: st.SearchStrategy[Type]) -> st.SearchStrategy[Type]:
    names = st.lists(st.sampled_from("cab"), unique=True, min_size=1)
    fields = names.flatmap(
        lambda some: st.tuples(*(st.tuples(st.just(name), inner) for name in some))
    )
    return st.one_of(
        fields.map(lambda some: struct_of(field_of(name, kind) for name, kind in some)),
        inner.map(lambda kind: {"type": "array", "elementType": kind, "containsNull": True}),
        st.tuples(st.sampled_from(["string", "integer"]), inner).map(
            lambda two: {
                "type": "map",
                "keyType": two[0],
                "valueType": two[1],
                "valueContainsNull": True,
            }
        ),
    )


TYPES: st.SearchStrategy[Type] = st.recursive(LEAVES, nested, max_leaves=6)


@given(TYPES, TYPES, TYPES, st.booleans())
def test_it_is_associative_commutative_and_idempotent(
    a: Type, b: Type, c: Type, is_text: bool
) -> None:
    def of(*types: Type) -> Type:
        return reduce(lambda left, right: join(left, right, is_text=is_text), types)

    assert of(a, of(b, c)) == of(of(a, b), c)
    assert of(a, b) == of(b, a)
    assert of(a, a) == of(a, NOTHING) == of(NOTHING, a) == a


@given(TYPES, TYPES, TYPES, st.booleans())
def test_it_is_monotone(a: Type, b: Type, c: Type, is_text: bool) -> None:
    wide = join(a, b, is_text=is_text)
    assert is_held(a, wide, is_text=is_text)
    assert is_held(join(a, c, is_text=is_text), join(wide, c, is_text=is_text), is_text=is_text)


@given(st.lists(TYPES, min_size=1, max_size=6), st.booleans(), st.randoms())
def test_any_order_of_files_gives_one_type(
    types: list[Type], is_text: bool, random: object
) -> None:
    shuffled = list(types)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert reduce(lambda a, b: join(a, b, is_text=is_text), types) == reduce(
        lambda a, b: join(a, b, is_text=is_text), shuffled
    )


@given(TYPES, TYPES)
def test_text_holds_everything_and_other_formats_are_read_exactly(a: Type, b: Type) -> None:
    assert CONFLICT not in str(join(a, b, is_text=True))
    exact = join(a, b, is_text=False)
    if CONFLICT not in str(exact):
        assert "refused" not in (fit(a, exact), fit(b, exact))


@given(TYPES, TYPES)
def test_growth_is_the_join_where_nothing_conflicts(a: Type, b: Type) -> None:
    grown, conflicts = grow("c", a, b, is_text=False)
    assert bool(conflicts) == (CONFLICT in str(join(a, b, is_text=False)))
    assert CONFLICT not in str(grown)
    if not conflicts:
        assert grown == join(a, b, is_text=False)

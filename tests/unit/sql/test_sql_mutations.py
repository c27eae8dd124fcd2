"""Queries that are carried out piecewise find planted faults: each switches one rule of the proofs
off.

Here the product's modules are patched, to show that the comparison with the whole would notice;
nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import duckdb
import pytest

from controlplane.core.sql import (
    OutputKeyPart,
    analyse,
    decomposable,
    equal,
    keyed_inputs,
    mode_proof,
)
from tests.slices import sliced
from tests.unit.sql.piecewise import Database, assert_piecewise, small_tables
from tests.unit.sql.queries import VERDICTS, parts_of
from tests.unit.sql.random_queries import Writer

pytestmark = [pytest.mark.unit, pytest.mark.slow]

RANDOM = 200
Patch: TypeAlias = tuple[object, str, Any]
_SCOPE = keyed_inputs._ScopeProof
MUTATIONS: dict[str, Callable[[], Patch]] = {}


def mutation(plant: Callable[[], Patch]) -> Callable[[], Patch]:
    MUTATIONS[plant.__name__] = plant
    return plant


def _as_inner(proof: Any, at: int, key: Any, pairs: Any) -> Any:
    both = proof._unmerged(at, key, left=True, right=True)
    return proof._inner(at, equal.closed(both, pairs))


@mutation
def a_left_join_is_an_inner_one() -> Patch:
    return _SCOPE, "_preserving_left", _as_inner


@mutation
def a_right_join_is_an_inner_one() -> Patch:
    return _SCOPE, "_preserving_right", _as_inner


@mutation
def a_full_join_is_an_inner_one() -> Patch:
    return _SCOPE, "_full", _as_inner


@mutation
def windows_may_look_anywhere() -> Patch:
    return _SCOPE, "_under_windows", lambda proof, key: key


@mutation
def groups_may_have_totals() -> Patch:
    return _SCOPE, "_check_groups", lambda proof: None


@mutation
def a_subquery_reads_nothing() -> Patch:
    return keyed_inputs, "_unsplit", lambda relations: keyed_inputs.InputKeys({}, frozenset())


@mutation
def an_input_may_be_read_in_two_ways() -> Patch:
    return (
        keyed_inputs.InputKeys,
        "__or__",
        lambda left, right: keyed_inputs.InputKeys(
            {**left.by, **right.by}, left.unsplit | right.unsplit
        ),
    )


@mutation
def unmatched_rows_may_come_from_anywhere() -> Patch:
    return decomposable, "_check_join", lambda source, join, kinds: None


@mutation
def two_scopes_may_read_an_input() -> Patch:
    return decomposable, "_reader_besides", lambda *_: None


@mutation
def everything_can_be_merged() -> Patch:
    return decomposable, "_check_aggregate", lambda call: None


@mutation
def below_the_aggregate_anything_goes() -> Patch:
    return decomposable, "_check_parts", lambda scope, known: None


@mutation
def sides_of_a_union_may_read_the_same_in_two_ways() -> Patch:
    return mode_proof, "_check_apart", lambda scopes, refs: None


@pytest.fixture(scope="module")
def small() -> Iterator[Database]:
    database = Database(small_tables(1))
    yield database
    database.close()


def _queries() -> Iterator[tuple[str, tuple[OutputKeyPart, ...]]]:
    for known in VERDICTS:
        if known.get("runs", True):
            yield known["sql"], parts_of(known)
    for seed in range(RANDOM):
        chosen = Writer(seed).query()
        yield chosen.text, (OutputKeyPart(chosen.partition_by),) if chosen.partition_by else ()


@pytest.mark.parametrize("name", sliced(MUTATIONS, 3))  # each asks all queries of one planted fault
def test_a_planted_fault_is_found(
    small: Database, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(*MUTATIONS[name]())
    for text, parts in _queries():
        verdicts = analyse(text).verdicts(parts, small.columns)
        try:
            assert_piecewise(small, text, verdicts)
        except duckdb.BinderException:
            continue
        except AssertionError:
            small.restore(small.columns)
            return
    raise AssertionError("nobody noticed")

"""Traces, fragments, build traces, memos."""

from __future__ import annotations

from dataclasses import replace

import pytest

from controlplane.core.model.memos import Memos
from dataplane.contract.results import ConnectAnswer, FileEntry
from dataplane.contract.schemas import struct_of
from tests.store.conftest import World
from tests.store.examples import ODD_KEYS, SCHEMA, d, error, fragment, trace


def test_traces_and_fragments_are_found_again(world: World) -> None:
    with world.begin() as tx:
        tx.traces.put(
            [trace(1, 1), trace(2, 1, 2, by="adopted"), trace(3)], [fragment(1), fragment(2)]
        )
        assert tx.traces.last() == 3
    with world.read() as tx:
        assert tx.traces.hits([d(1), d(2), d(3), d(4)]) == {
            d(1): trace(1, 1, seq=1),
            d(2): trace(2, 1, 2, by="adopted", seq=2),
            d(3): trace(3, seq=3),
        }
        assert tx.traces.fragments([d(1), d(2), d(9)]) == {d(1): fragment(1), d(2): fragment(2)}
        assert tx.traces.last() == 3


def test_a_key_of_another_length_hides_no_other(world: World) -> None:
    with world.begin() as tx:
        tx.traces.put_memos({d(1): {"schema": SCHEMA}, d(2): {"rows": 1}})
    with world.read() as tx:
        assert tx.traces.memos([d(1), b"short", d(2) + b"long", d(2)]).keys() == {d(1), d(2)}


def test_files_of_fragments_are_found_without_their_statistics(world: World) -> None:
    """Also of several files, with escapes in a path, and beside statistics that look like another
    file."""
    [plain] = fragment(1).files
    like = {"path": "z", "rows": 1, "size": 2, "stats": 0}
    files: dict[int, list[FileEntry]] = {
        1: [plain],
        2: [],
        3: [{**plain, "path": 'é \\ " , {'}],
        4: [plain, {**plain, "path": "b", "size": 7}],
        5: [
            {**plain, "path": "a", "stats": {"minValues": like, "maxValues": {"s": '{"path":"z"}'}}}
        ],
    }
    with world.begin() as tx:
        tx.traces.put([], [fragment(n, files=tuple(entries)) for n, entries in files.items()])
        assert tx.traces.stored_files([d(1)]) == {d(1): ((plain["path"], plain["size"]),)}
    with world.read() as tx:
        expected = {
            d(n): tuple((f["path"], f["size"]) for f in entries) for n, entries in files.items()
        }
        assert tx.traces.stored_files(map(d, [*files, 9])) == expected
        assert tx.traces.stored_files([d(9)]) == tx.traces.stored_files([]) == {}
        for id, of_one in expected.items():
            assert tx.traces.stored_files([id]) == {id: of_one}


def test_numbers_grow_over_transactions(world: World) -> None:
    for n in (5, 3, 4):
        with world.begin() as tx:
            tx.traces.put([trace(n, n)], [fragment(n)])
    with world.read() as tx:
        assert {k: t.seq for k, t in tx.traces.hits([d(3), d(4), d(5)]).items()} == {
            d(5): 1,
            d(3): 2,
            d(4): 3,
        }


def test_a_hit_stays_as_it_is(world: World) -> None:
    with world.begin() as tx:
        tx.traces.put([trace(1, 1)], [fragment(1)])
    with world.begin() as tx:
        tx.traces.put([trace(1, 2), trace(2, 2)], [fragment(1, attempt="late"), fragment(2)])
        assert tx.traces.hits([d(1), d(2)]) == {d(1): trace(1, 1, seq=1), d(2): trace(2, 2, seq=2)}
        assert tx.traces.fragments([d(1)]) == {d(1): fragment(1)}
        assert tx.traces.last() == 2


@pytest.mark.parametrize("status", ["condemned", "deleted"])
def test_a_trace_is_a_hit_only_while_its_fragments_are_stored(world: World, status: str) -> None:
    with world.begin() as tx:
        tx.traces.put([trace(1, 1, 2), trace(2, 1)], [fragment(1), fragment(2, status=status)])
        assert set(tx.traces.hits([d(1), d(2)])) == {d(2)}
        tx.traces.put([trace(1, 3), trace(2, 3)], [fragment(3)])
        assert tx.traces.hits([d(1), d(2)]) == {d(1): trace(1, 3, seq=3), d(2): trace(2, 1, seq=2)}


def test_a_fragment_that_was_lost_comes_back(world: World) -> None:
    with world.begin() as tx:
        tx.traces.put([trace(1, 1)], [fragment(1, status="deleted")])
    with world.begin() as tx:
        tx.traces.put([trace(2, 1)], [fragment(1, attempt="second")])
        assert tx.traces.fragments([d(1)]) == {d(1): fragment(1, attempt="second")}
        assert set(tx.traces.hits([d(1), d(2)])) == {d(1), d(2)}


def test_a_trace_without_its_fragment_is_no_hit(world: World) -> None:
    with world.begin() as tx:
        tx.traces.put([trace(1, 1)], [])
        assert tx.traces.hits([d(1)]) == {}
        tx.traces.put([trace(1, 2)], [fragment(2)])
        assert tx.traces.hits([d(1)]) == {d(1): trace(1, 2, seq=2)}


def test_the_first_of_equal_keys_counts(world: World) -> None:
    with world.begin() as tx:
        tx.traces.put(
            [trace(1, 1), trace(1, 2)], [fragment(1), fragment(2), fragment(1, attempt="again")]
        )
        assert tx.traces.hits([d(1)]) == {d(1): trace(1, 1, seq=1)}
        assert tx.traces.fragments([d(1)]) == {d(1): fragment(1)}


def test_many_at_once(world: World) -> None:
    """What is lost comes back, what is stored stays as it is, among hundreds as among few."""
    every = range(1, 301)
    with world.begin() as tx:
        old = [
            fragment(n, status="deleted" if n % 2 else "stored", attempt="old") for n in every[:200]
        ]
        tx.traces.put([trace(1000 + n, n) for n in every[:200]], old)
    with world.begin() as tx:
        tx.traces.put(
            [trace(1000 + n, n) for n in every], [fragment(n, attempt="new") for n in every]
        )
    with world.read() as tx:
        found = tx.traces.fragments(d(n) for n in (*every, 999))
        assert {n for n in every if found[d(n)].attempt == "old"} == set(range(2, 201, 2))
        assert len(found) == 300
        assert all(f.status == "stored" for f in found.values())
        assert tx.traces.hits([d(n) for n in (*range(1001, 1301), 5000)]).keys() == {
            d(1000 + n) for n in every
        }


def test_any_text_is_an_output(world: World) -> None:
    many = replace(trace(1), outputs=dict.fromkeys(ODD_KEYS, d(1)))
    with world.begin() as tx:
        tx.traces.put([many], [fragment(1)])
        assert tx.traces.hits([d(1)]) == {d(1): replace(many, seq=1)}


def test_build_traces(world: World) -> None:
    with world.begin() as tx:
        assert tx.traces.remembered([d(1)], [d(1)]) == ({}, {})
        tx.traces.put_build(d(1), d(2), SCHEMA)
        tx.traces.put_build(d(1), d(3), struct_of([]))
        assert tx.traces.remembered([d(1)], []) == ({d(1): (d(3), struct_of([]))}, {})


def test_memos(world: World) -> None:
    refused: ConnectAnswer = {"connector": "files", "place": "/x", "error": error()}
    with world.begin() as tx:
        tx.traces.put_memo(d(1), {"schema": SCHEMA})
        tx.traces.put_memo(d(2), {"schema": None})
        tx.traces.put_memo(d(2), refused)
        tx.traces.put_memos({d(1): {"schema": SCHEMA}, d(3): {"rows": 1}})
        tx.traces.put_memos({})
        found: Memos = {d(1): {"schema": SCHEMA}, d(2): refused, d(3): {"rows": 1}}
        assert tx.traces.memos([d(1), d(2), d(3), d(4)]) == found
        tx.traces.forget_memos([d(1), d(3)])
        assert set(tx.traces.memos([d(1), d(2)])) == {d(2)}


def test_files_keep_the_attempt_that_wrote_them(world: World) -> None:
    with world.begin() as tx:
        tx.traces.put(
            [], [fragment(1), fragment(2, status="condemned"), fragment(3, status="deleted")]
        )
        asked = ["attempt-1", "attempt-2", "attempt-3", "nope"]
        assert tx.traces.referenced_attempts(asked) == {"attempt-1", "attempt-2"}

"""A cache of nodes changes what is read and nothing else; `warm` reads ahead what will be
needed."""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.core.errors import CorruptNode
from controlplane.core.tree import (
    EMPTY_ROOT,
    NodeCache,
    build,
    diff,
    diff_keys,
    edit,
    lookup,
    reachable,
    scan,
    totals,
    warm,
)
from controlplane.core.tree.codec import decode
from tests.trees import MemoryNodes, keys_digest, verify
from tests.unit.tree.examples import boundary_keys, built, entry, keys, numbered, states

PLENTY = 1 << 30
ENTRIES = numbered(20_000)
DEPTH = 3

edits = st.dictionaries(keys, st.one_of(st.none(), st.integers(0, 2)), max_size=30)


def answers(nodes, old, new, wanted):
    return (
        list(scan(nodes, old)),
        list(diff(nodes, old, new, window=3)),
        list(diff_keys(nodes, old, new)),
        lookup(nodes, old, wanted),
        totals(nodes, old),
        keys_digest(nodes, old),
        list(reachable(nodes, old)),
        edit(nodes, old, [(key, entry(key, 9)) for key in sorted(set(wanted))]),
        edit(nodes, old, [(key, None) for key in sorted(set(wanted))]),
    )


@given(states, states, st.lists(keys), st.sampled_from([0, 500, 5000, PLENTY]), st.booleans())
def test_a_cache_of_any_size_warm_or_cold_changes_no_answer(
    before, after, wanted, max_bytes, is_warm
):
    plain = MemoryNodes()
    old, new = (
        build(plain, (entry(key, state[key]) for key in sorted(state))) for state in (before, after)
    )
    expected = answers(plain, old, new, wanted)
    cache = NodeCache(max_bytes)
    for _ in range(2):
        nodes = cache.over(plain)
        if is_warm:
            warm(nodes, [(old, sorted(set(wanted))), (new, [])])
        assert answers(nodes, old, new, wanted) == expected
    assert cache.size_bytes <= max_bytes


@given(states, edits)
def test_nothing_is_read_or_lost_where_the_cache_holds_what_was_written(state, steps):
    plain, cache = MemoryNodes(), NodeCache(PLENTY)
    nodes = cache.over(plain)
    old = build(nodes, (entry(key, state[key]) for key in sorted(state)))
    new = edit(
        nodes, old, [(k, None if steps[k] is None else entry(k, steps[k])) for k in sorted(steps)]
    )
    expected = list(scan(nodes, new))
    assert plain.calls == 0
    assert cache.size_bytes == sum(map(len, plain.blobs.values()))
    verify(plain, new)
    assert list(scan(plain, new)) == expected


class Shelf:
    """Trees of the same keys in one store, with a cache that has yet to read them."""

    def __init__(self, count: int, entries=ENTRIES, max_bytes: int = PLENTY) -> None:
        self.below = MemoryNodes()
        self.roots = [build(self.below, (entry(e.key, i) for e in entries)) for i in range(count)]
        self.below.reset()
        self.cache = NodeCache(max_bytes)
        self.nodes = self.cache.over(self.below)


def test_a_node_is_read_once():
    shelf = Shelf(1)
    for _ in range(3):
        assert list(scan(shelf.nodes, shelf.roots[0])) == ENTRIES
        assert shelf.below.reads == shelf.cache.reads == len(shelf.below.blobs)


def test_only_what_is_missing_is_read_in_one_call():
    shelf = Shelf(1)
    digests = list(shelf.below.blobs)
    assert shelf.nodes.get_nodes(digests[::2]) == {
        digest: shelf.below.blobs[digest] for digest in digests[::2]
    }
    assert shelf.nodes.get_nodes(digests) == shelf.below.blobs
    assert shelf.nodes.get_nodes(digests) == shelf.below.blobs
    assert (shelf.below.calls, shelf.cache.reads) == (2, len(digests))


def test_what_was_used_last_is_kept():
    shelf = Shelf(1)
    digests = list(shelf.below.blobs)[:4]
    sizes = [len(shelf.below.blobs[digest]) for digest in digests]
    cache = NodeCache(sum(sizes) - 1)
    nodes = cache.over(shelf.below)
    # The first is used again before there is no room
    for digest in (*digests[:3], digests[0], digests[3]):
        nodes.get_nodes([digest])
    assert cache.reads == 4
    nodes.get_nodes([digests[0], digests[2], digests[3]])
    assert cache.reads == 4
    assert cache.size_bytes == sizes[0] + sizes[2] + sizes[3]
    nodes.get_nodes([digests[1]])
    assert cache.reads == 5


def test_a_cache_with_no_room_forgets_and_works():
    shelf = Shelf(1, max_bytes=100)
    assert list(scan(shelf.nodes, shelf.roots[0])) == ENTRIES
    assert shelf.cache.size_bytes == 0


def test_nodes_put_as_bytes_are_kept_too_and_corrupt_ones_refused():
    source = Shelf(1).below
    below = MemoryNodes()
    nodes = NodeCache(PLENTY).over(below)
    nodes.put_nodes(source.blobs)
    assert nodes.get_nodes(list(source.blobs)) == below.blobs == source.blobs
    assert below.calls == 0
    with pytest.raises(CorruptNode, match="00: its bytes have another digest"):
        nodes.put_nodes({bytes(32): b"x"})
    assert bytes(32) not in below.blobs


def test_what_is_corrupt_or_missing_below_is_not_kept():
    shelf = Shelf(1)
    digest, blob = shelf.below.blobs.popitem()
    for wrong, why in ((None, "missing"), (blob[:-1], "digest")):
        if wrong is not None:
            shelf.below.blobs[digest] = wrong
        with pytest.raises(CorruptNode, match=f"{digest.hex()}: .*{why}"):
            list(scan(shelf.nodes, digest))
    shelf.below.blobs[digest] = blob
    assert list(scan(shelf.nodes, digest))


@given(states)
def test_a_node_gives_back_the_bytes_it_was_decoded_from(state):
    nodes, _ = built(entry(key, state[key]) for key in sorted(state))
    for digest, blob in nodes.blobs.items():
        node = decode(digest, blob, {})
        assert (node.blob(), node.size_bytes) == (blob, len(blob))


class Meeting:
    """A store at which readers wait for each other, so that all of them miss the same nodes at
    once."""

    def __init__(self, below: MemoryNodes, readers: int) -> None:
        self.below, self.barrier = below, Barrier(readers)

    def get_nodes(self, digests: Sequence[bytes]) -> Mapping[bytes, bytes]:
        self.barrier.wait()
        return {digest: self.below.blobs[digest] for digest in digests}

    def put_nodes(self, nodes: Mapping[bytes, bytes]) -> None:
        self.below.put_nodes(nodes)


def test_threads_that_read_the_same_nodes_at_once_count_them_once_in_the_size():
    shelf = Shelf(1)
    digests = list(shelf.below.blobs)
    nodes = shelf.cache.over(Meeting(shelf.below, 4))
    with ThreadPoolExecutor(4) as pool:
        for found in pool.map(lambda _: nodes.get_nodes(digests), range(4)):
            assert found == shelf.below.blobs
    assert shelf.cache.reads == 4 * len(digests)
    assert shelf.cache.size_bytes == sum(map(len, shelf.below.blobs.values()))


# Reading ahead.


def test_a_hundred_trees_are_warmed_in_as_many_calls_as_they_have_levels():
    shelf = Shelf(100, ENTRIES[:1500])
    low = build(shelf.below, [entry("only")])
    wanted = [ENTRIES[7].key, ENTRIES[1490].key]
    warm(
        shelf.nodes,
        [*((root, wanted) for root in shelf.roots), (low, wanted), (EMPTY_ROOT, wanted)],
    )
    assert shelf.below.calls == 2
    assert shelf.cache.reads == shelf.below.reads == 100 * (1 + 2) + 1


def test_after_warming_nothing_is_read():
    boundary = boundary_keys(1, 2)[0]
    shelf = Shelf(3, sorted([*ENTRIES, *map(entry, boundary_keys(3, 2))]))
    wanted = sorted([ENTRIES[0].key, ENTRIES[9000].key, "a", "part-0009000.csv~", "zz", boundary])
    warm(shelf.nodes, [(root, wanted) for root in shelf.roots])
    shelf.below.reset()
    for root in shelf.roots:
        lookup(shelf.nodes, root, wanted)
        totals(shelf.nodes, root)
        edit(shelf.nodes, root, [(key, entry(key, 5)) for key in wanted])
        edit(shelf.nodes, root, [(key, None) for key in wanted])
    assert shelf.below.calls == 0


def test_no_keys_warm_the_root_only():
    shelf = Shelf(5, ENTRIES[:3000])
    warm(shelf.nodes, ((root, ()) for root in shelf.roots))
    assert (shelf.below.reads, shelf.below.calls) == (5, 1)
    for root in shelf.roots:
        totals(shelf.nodes, root)
        keys_digest(shelf.nodes, root)
    warm(shelf.nodes, [(EMPTY_ROOT, ["a"])])
    assert shelf.below.calls == 1


def test_warming_reads_what_is_missing_only():
    shelf = Shelf(1)
    warm(shelf.nodes, [(shelf.roots[0], [ENTRIES[0].key])])
    warm(shelf.nodes, [(shelf.roots[0], [ENTRIES[0].key, ENTRIES[-1].key])])
    assert (shelf.below.reads, shelf.below.calls) == (5, 5)

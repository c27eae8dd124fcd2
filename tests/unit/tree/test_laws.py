"""What holds for all maps: equal maps have equal roots, and diff, edit and the readers agree with a
dictionary."""

import struct
from collections import Counter
from itertools import islice
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controlplane.core import tree
from controlplane.core.tree import (
    EMPTY_ROOT,
    Entry,
    EntryChange,
    KeyChange,
    NodeColumns,
    build,
    build_columns,
    diff,
    diff_keys,
    diff_keys_many,
    diff_many,
    edit,
    heads,
    lookup,
    reachable,
    scan,
    summaries,
    totals,
)
from dataplane.contract.identity import EMPTY, Content
from tests.trees import MemoryNodes, keys_digest, verify
from tests.unit.tree.examples import (
    ENDS,
    boundary_keys,
    built,
    entry,
    keys,
    numbered,
    root_of,
    states,
    texts,
)

windows = st.integers(1, 5)
edits = st.dictionaries(keys, st.one_of(st.none(), st.integers(0, 2)), max_size=30)


def stored(state: dict[str, int], nodes: MemoryNodes) -> bytes:
    return build(nodes, (entry(key, state[key]) for key in sorted(state)))


def changes_of(steps: dict[str, int | None]) -> list[tuple[str, Entry | None]]:
    return [
        (key, None if (version := steps[key]) is None else entry(key, version))
        for key in sorted(steps)
    ]


@given(st.lists(edits, max_size=8))
def test_any_history_of_edits_gives_the_root_of_the_final_map(history):
    nodes, root = MemoryNodes(), EMPTY_ROOT
    state: dict[str, int] = {}
    for steps in history:
        root = edit(nodes, root, changes_of(steps))
        state = {key: v for key, v in (state | steps).items() if v is not None}
        assert root == root_of(state)
        verify(nodes, root)


@given(states, states, windows)
def test_a_diff_is_what_differs_in_order_both_ways_and_edits_one_into_the_other(
    before, after, window
):
    nodes = MemoryNodes()
    old, new = stored(before, nodes), stored(after, nodes)
    there = list(diff(nodes, old, new, window=window))
    differing = sorted(
        key for key in before.keys() | after.keys() if before.get(key) != after.get(key)
    )
    assert there == [EntryChange(k, entry_in(before, k), entry_in(after, k)) for k in differing]
    assert [EntryChange(c.key, c.after, c.before) for c in diff(nodes, new, old)] == there
    assert edit(nodes, old, ((c.key, c.after) for c in there)) == new


@given(states, states, windows)
def test_a_diff_of_keys_is_what_one_map_lacks_in_order_both_ways(before, after, window):
    nodes = MemoryNodes()
    old, new = stored(before, nodes), stored(after, nodes)
    there = list(diff_keys(nodes, old, new, window=window))
    assert there == [
        KeyChange(k, k in before, k in after) for k in sorted(before.keys() ^ after.keys())
    ]
    assert [KeyChange(c.key, c.after, c.before) for c in diff_keys(nodes, new, old)] == there


@given(states, states, windows, st.one_of(keys, keys.map(tree.after)))
def test_a_diff_that_starts_late_is_the_rest_of_the_diff(before, after, window, start):
    nodes = MemoryNodes()
    old, new = stored(before, nodes), stored(after, nodes)
    for compare in (diff, diff_keys):
        rest = [c for c in compare(nodes, old, new) if c.key >= start]
        assert list(compare(nodes, old, new, start=start, window=window)) == rest


@given(st.lists(st.tuples(states, states), max_size=6), windows)
def test_many_diffs_at_once_are_the_diffs_one_by_one(pairs, window):
    nodes = MemoryNodes()
    roots = [(stored(before, nodes), stored(after, nodes)) for before, after in pairs]
    for many, one in ((diff_many, diff), (diff_keys_many, diff_keys)):
        assert list(many(nodes, roots, window=window)) == [
            (i, c) for i, pair in enumerate(roots) for c in one(nodes, *pair)
        ]


@given(states, texts, st.one_of(st.none(), texts), texts)
def test_a_scan_gives_the_entries_of_a_range_and_prefix_in_the_order_of_their_bytes(
    state, start, stop, prefix
):
    nodes = MemoryNodes()
    root = stored(state, nodes)
    expected = [
        k for k in state if k >= start and (stop is None or k < stop) and k.startswith(prefix)
    ]
    assert [e.key for e in scan(nodes, root, start, stop, prefix)] == sorted(
        expected, key=str.encode
    )
    assert list(scan(nodes, root)) == [entry(key, state[key]) for key in sorted(state)]


@given(states, states, st.integers(1, 20))
def test_heads_are_the_first_entries_of_each_tree(one, other, count):
    nodes = MemoryNodes()
    roots = [stored(state, nodes) for state in (one, other)]
    assert heads(nodes, roots, count) == {
        root: list(islice(scan(nodes, root), count)) for root in roots
    }


@given(states, st.lists(keys))
def test_a_lookup_finds_the_keys_that_are_there(state, wanted):
    nodes = MemoryNodes()
    assert lookup(nodes, stored(state, nodes), wanted) == {
        k: entry(k, state[k]) for k in wanted if k in state
    }


@given(states, st.one_of(keys, keys.map(tree.after)))
def test_the_entry_before_a_key_is_the_greatest_of_the_lesser_ones(state, key):
    nodes = MemoryNodes()
    least = max((k for k in state if k < key), default=None)
    expected = None if least is None else entry(least, state[least])
    assert tree.before(nodes, stored(state, nodes), key) == expected


@given(states, states)
def test_summaries_are_sums_and_tell_equal_sets_of_keys(one, other):
    nodes = MemoryNodes()
    roots = [stored(state, nodes) for state in (one, other)]
    found = summaries(nodes, roots)
    for root, state in zip(roots, (one, other), strict=True):
        contents = [entry(key, version).content for key, version in state.items()]
        total = EMPTY
        for content in contents:
            total = total.plus(content)
        assert totals(nodes, root) == found[root].totals == (len(state), total)
    assert (found[roots[0]].keys == found[roots[1]].keys) == (one.keys() == other.keys())


@given(states, states, states)
def test_reachable_nodes_are_enough_to_read_a_tree_and_none_is_idle(one, other, third):
    nodes = MemoryNodes()
    root = edit(
        nodes, stored(one, nodes), changes_of(dict.fromkeys(one.keys() - other.keys()) | other)
    )
    stored(third, nodes)
    digests = list(reachable(nodes, root))
    kept = MemoryNodes()
    kept.put_nodes({digest: nodes.blobs[digest] for digest in digests})
    verify(kept, root)
    assert kept.blobs == built(scan(kept, root))[0].blobs
    assert max(Counter(digests).values(), default=1) == 1


def entry_in(state: dict[str, int], key: str) -> Entry | None:
    return entry(key, state[key]) if key in state else None


# Larger trees, where windows, chunks and several levels come into play.


@pytest.mark.slow
@settings(max_examples=15)
@given(st.integers(), st.integers(0, 3000), st.integers(0, 3000))
def test_the_laws_hold_in_trees_of_many_leaves(seed, changed, removed):
    random = Random(seed)
    nodes, old = built(sorted([*numbered(6000), *map(entry, ENDS)]))
    state = {e.key: 0 for e in scan(nodes, old)}
    steps: dict[str, int | None] = dict.fromkeys(random.sample(sorted(state), removed))
    steps |= {
        f"part-{random.randrange(7000):07d}.csv{random.choice(['', '~'])}": 1
        for _ in range(changed)
    }
    new = edit(nodes, old, changes_of(steps))
    after = {key: v for key, v in (state | steps).items() if v is not None}
    assert new == root_of(after)
    differing = sorted(k for k in state | steps if state.get(k) != after.get(k))
    assert [c.key for c in diff(nodes, old, new)] == differing
    assert [c.key for c in diff(nodes, new, old, window=3)] == differing
    assert [c.key for c in diff_keys(nodes, old, new, window=3)] == sorted(
        state.keys() ^ after.keys()
    )


def test_removing_and_adding_keys_that_end_nodes_of_every_level():
    high = boundary_keys(6, 2)
    entries = sorted([*numbered(1500), *map(entry, {*ENDS, *high})])
    nodes, root = built(entries)
    for end in {*ENDS, *high}:
        without = edit(nodes, root, [(end, None)])
        assert without == built(e for e in entries if e.key != end)[1]
        assert edit(nodes, without, [(end, entry(end))]) == root


def test_a_tree_grows_from_and_shrinks_to_one_leaf_and_nothing():
    entries = sorted([*numbered(3000), *map(entry, boundary_keys(3, 2))])
    nodes, root = built(entries)
    only = edit(nodes, root, [(e.key, None) for e in entries[1:]])
    assert only == built(entries[:1])[1]
    assert edit(nodes, only, [(entries[0].key, None)]) == EMPTY_ROOT
    assert edit(nodes, only, [(e.key, e) for e in entries]) == root


def test_equal_trees_of_unequal_height_share_what_they_share():
    ends = boundary_keys(2, 2)
    few = sorted([*numbered(10), entry(min(ends))])
    many = sorted([*numbered(10), *map(entry, ends), *(entry(f"z{i:05d}") for i in range(4000))])
    nodes, low = built(few)
    high = build(nodes, many)
    new = {e.key for e in many} - {e.key for e in few}
    assert [c.key for c in diff(nodes, low, high)] == sorted(new)


def test_edits_and_diffs_stream():
    entries = numbered(60_000)
    nodes, root = built(entries)
    emptied = edit(nodes, root, ((e.key, None) for e in entries[:59_000]))
    assert emptied == built(entries[59_000:])[1]
    nodes.reset()
    assert next(diff(nodes, EMPTY_ROOT, root)).key == "part-0000000.csv"
    everything = [c.key for c in diff(nodes, root, emptied)]
    assert everything == sorted(everything)
    assert len(everything) == 59_000


def columns(entries: list[Entry]) -> NodeColumns:
    contents = b"".join(struct.pack("<3Q", *e.content) for e in entries)
    return NodeColumns([e.key for e in entries], b"".join(e.fragment for e in entries), contents)


@settings(max_examples=20)
@given(st.lists(st.integers(0, 3000)), states)
def test_rows_by_column_in_any_chunks_give_the_tree_of_their_entries(cuts, state):
    entries = sorted([*numbered(3000), *(entry(key, state[key]) for key in state)])
    ends = sorted({*cuts, len(entries)})
    nodes = MemoryNodes()
    root = build_columns(
        nodes, (columns(entries[i:j]) for i, j in zip([0, *ends], ends, strict=False))
    )
    assert (nodes.blobs, root) == (built(entries)[0].blobs, built(entries)[1])


# The empty tree, and what is refused.


def test_the_empty_tree_needs_no_node():
    nodes = MemoryNodes()
    assert build(nodes, []) == edit(nodes, EMPTY_ROOT, [("a", None)]) == EMPTY_ROOT
    assert not [*scan(nodes, EMPTY_ROOT), *reachable(nodes, EMPTY_ROOT)]
    assert list(diff(nodes, EMPTY_ROOT, EMPTY_ROOT)) == []
    assert lookup(nodes, EMPTY_ROOT, ["a"]) == {}
    assert totals(nodes, EMPTY_ROOT) == (0, EMPTY)
    verify(nodes, EMPTY_ROOT)
    assert (nodes.calls, nodes.writes) == (0, 0)
    assert keys_digest(nodes, EMPTY_ROOT) != keys_digest(nodes, build(nodes, [entry("")]))


@pytest.mark.parametrize(
    "entries",
    [
        [entry("b"), entry("a")],
        [entry("a"), entry("a", 1)],
        [*numbered(8192), entry("part-")],
        [Entry("a", b"short", EMPTY)],
        [Entry("a", bytes(32), Content(-1, 0, 0))],
        [Entry("a", bytes(32), Content(0, 0, 1 << 64))],
        [Entry("\ud800", bytes(32), EMPTY)],
    ],
    ids=["order", "twice", "order across chunks", "fragment", "negative", "too large", "surrogate"],
)
def test_entries_that_no_tree_can_hold_are_refused(entries):
    with pytest.raises(ValueError):  # noqa: PT011 - one of several messages
        build(MemoryNodes(), entries)
    nodes, root = built([entry("m")])
    with pytest.raises(ValueError):  # noqa: PT011
        edit(nodes, root, [(e.key, e) for e in entries])


def test_columns_that_do_not_hold_the_same_rows_are_refused():
    good = columns(numbered(3))
    for bad in (
        good._replace(ids=good.ids[:-1]),
        good._replace(rest=good.rest * 2),
        good._replace(keys=good.keys[1:]),
    ):
        with pytest.raises(ValueError, match="are not those of"):
            build_columns(MemoryNodes(), [bad])
    with pytest.raises(ValueError, match="ascend"):
        build_columns(MemoryNodes(), [good, good])


def test_a_change_must_carry_its_own_key():
    nodes, root = built([entry("m")])
    with pytest.raises(ValueError, match="its key"):
        edit(nodes, root, [("a", entry("b"))])


def test_sums_wrap_at_64_bits():
    content = Content(1, (1 << 64) - 1, 5)
    nodes, root = built(Entry(key, bytes(32), content) for key in "abc")
    assert totals(nodes, root) == (3, Content(3, (1 << 64) - 3, 15))


def test_examples_reach_several_leaves():
    assert len(built(map(entry, sorted(ENDS)))[0].blobs) > 40

"""Cost as a contract: how many nodes are read and written, in how many calls."""

from itertools import islice

import pytest

from controlplane.core.tree import (
    EMPTY_ROOT,
    KeyChange,
    before,
    build,
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
from controlplane.core.tree.shape import height
from controlplane.core.tree.walk import WINDOW
from tests.trees import MemoryNodes
from tests.unit.tree.examples import boundary_keys, entry, numbered

ENTRIES = numbered(100_000)
DEPTH = 3  # levels of the tree of these entries


@pytest.fixture(scope="module")
def built_once():
    nodes = MemoryNodes()
    return nodes.blobs, build(nodes, ENTRIES)


@pytest.fixture
def tree(built_once):
    blobs, root = built_once
    nodes = MemoryNodes()
    nodes.blobs = dict(blobs)
    return nodes, root


def test_nodes_hold_about_512_rows(tree):
    nodes, _ = tree
    assert 100_000 / 700 < len(nodes.blobs) < 100_000 / 350
    assert sum(map(len, nodes.blobs.values())) < 70 * 100_000


def test_building_reads_nothing(tree):
    nodes, root = tree
    fresh = MemoryNodes()
    assert build(fresh, ENTRIES) == root
    assert (fresh.reads, fresh.writes) == (0, len(nodes.blobs))


@pytest.mark.parametrize(
    "changed", [ENTRIES[0].key, ENTRIES[50_000].key, ENTRIES[-1].key, "part-0050000.csv~", "z"]
)
def test_one_change_or_append_reads_and_writes_one_path(tree, changed):
    nodes, root = tree
    new = edit(nodes, root, [(changed, entry(changed, 1))])
    assert nodes.reads <= DEPTH
    assert nodes.writes <= DEPTH
    nodes.reset()
    assert [c.key for c in diff(nodes, root, new)] == [changed]
    assert nodes.reads <= 2 * DEPTH
    assert nodes.calls <= DEPTH


def test_appending_rewrites_the_last_leaf_only(tree):
    nodes, root = tree
    new = edit(nodes, root, [(f"z{i:02d}", entry(f"z{i:02d}")) for i in range(50)])
    assert nodes.writes <= DEPTH
    old_nodes, new_nodes = set(reachable(nodes, root)), set(reachable(nodes, new))
    assert len(new_nodes - old_nodes) <= DEPTH


@pytest.mark.parametrize("least", [1, 2])
def test_removing_a_key_that_ends_nodes_touches_their_neighbours_too(tree, least):
    nodes, root = tree
    edit(nodes, root, [(next(e.key for e in ENTRIES if height(e.key) >= least), None)])
    assert nodes.reads <= DEPTH + least
    assert nodes.writes <= DEPTH


def test_an_edit_that_changes_nothing_writes_nothing(tree):
    nodes, root = tree
    assert edit(nodes, root, [("absent", None), (ENTRIES[7].key, ENTRIES[7])]) == root
    assert nodes.writes == 0


def test_a_thousand_scattered_changes_take_few_calls(tree):
    nodes, root = tree
    changed = ENTRIES[::100]
    new = edit(nodes, root, [(e.key, entry(e.key, 1)) for e in changed])
    assert nodes.calls <= DEPTH
    nodes.reset()
    assert [c.key for c in diff(nodes, root, new)] == [e.key for e in changed]
    assert nodes.calls <= DEPTH + 1
    nodes.reset()
    assert len(lookup(nodes, root, (e.key for e in changed))) == len(changed)
    assert nodes.calls <= DEPTH + 1


def test_equal_trees_are_not_read(tree):
    nodes, root = tree
    assert list(diff(nodes, root, root)) == []
    assert nodes.calls == 0


def test_many_small_trees_are_compared_in_few_calls():
    nodes = MemoryNodes()
    pairs = []
    for i in range(300):
        entries = [entry(f"{i}/{j:03d}") for j in range(100)]
        root = build(nodes, entries)
        pairs.append((root, edit(nodes, root, [(entries[i % 100].key, None)])))
    nodes.reset()
    assert len(list(diff_many(nodes, pairs))) == 300
    assert nodes.calls <= 3
    assert nodes.reads <= len(nodes.blobs)
    nodes.reset()
    assert len(summaries(nodes, (root for pair in pairs for root in pair))) == 601
    assert nodes.calls <= 2


def test_first_entries_of_many_trees_take_a_call_for_each_level(tree):
    nodes, root = tree
    roots = [root, EMPTY_ROOT, build(nodes, ENTRIES[:1000]), build(nodes, ENTRIES[7:9])]
    nodes.reset()
    assert heads(nodes, roots, 10) == dict(
        zip(roots, (ENTRIES[:10], [], ENTRIES[:10], ENTRIES[7:9]), strict=True)
    )
    assert nodes.calls == DEPTH
    assert nodes.reads <= 2 * DEPTH


def test_trees_of_equal_keys_have_their_keys_compared_by_two_nodes(tree):
    nodes, root = tree
    other = build(nodes, (entry(e.key, 1) for e in ENTRIES))
    nodes.reset()
    assert list(diff_keys(nodes, root, other)) == []
    assert (nodes.reads, nodes.calls) == (2, 1)


def test_of_trees_that_share_no_node_only_what_lacks_keys_is_read(tree):
    nodes, root = tree
    gone = {e.key for e in ENTRIES[40_000:60_000:1000]}
    other = build(nodes, (entry(e.key, 1) for e in ENTRIES if e.key not in gone))
    nodes.reset()
    assert list(diff_keys(nodes, root, other)) == [
        KeyChange(key, before=True, after=False) for key in sorted(gone)
    ]
    assert nodes.reads <= 2 * (DEPTH - 1 + len(gone))
    assert nodes.calls <= DEPTH


def test_a_leaf_with_the_same_keys_is_passed_over_in_trees_of_unequal_height():
    ends = boundary_keys(2, 1)
    nodes = MemoryNodes()
    low = build(nodes, [entry(min(ends))])
    high = build(nodes, [entry(key, 1) for key in (min(ends), max(ends), "z")])
    nodes.reset()
    assert [c.key for c in diff_keys(nodes, low, high)] == [max(ends), "z"]
    assert nodes.reads == 2 + 2  # the roots, and two of the three leaves


def test_holes_in_many_half_built_trees_are_found_in_few_calls():
    nodes = MemoryNodes()
    keys = [f"part-{i:05d}" for i in range(1500)]
    pairs = []
    for i in range(40):
        root = build(nodes, [entry(key, i) for key in keys])
        holes = set(keys[i::100])
        pairs.append(
            (root, build(nodes, [entry(key, 100 + i) for key in keys if key not in holes]))
        )
    nodes.reset()
    expected = [
        (i, KeyChange(key, before=True, after=False)) for i in range(40) for key in keys[i::100]
    ]
    assert list(diff_keys_many(nodes, pairs)) == expected
    assert nodes.reads <= len(nodes.blobs)
    assert nodes.calls <= 1 + 1 + nodes.reads // WINDOW


def test_a_diff_that_starts_late_reads_nothing_before(tree):
    nodes, root = tree
    other = build(nodes, (entry(e.key, 1) for e in ENTRIES[::2]))
    nodes.reset()
    assert len(list(diff_keys(nodes, root, other, start=ENTRIES[99_900].key))) == 50
    assert nodes.reads <= 2 * (DEPTH + 1)


@pytest.mark.parametrize("at", [0, 1, 50_000, 99_999])
def test_the_entry_before_a_key_is_at_the_end_of_one_path_or_two(tree, at):
    nodes, root = tree
    assert before(nodes, root, ENTRIES[at].key) == (ENTRIES[at - 1] if at else None)
    assert before(nodes, root, "z") == ENTRIES[-1]
    assert nodes.reads <= 2 * (2 * DEPTH - 1)


def test_totals_read_one_node(tree):
    nodes, root = tree
    assert totals(nodes, root).partitions == 100_000
    assert nodes.reads == 1


def test_a_reader_who_stops_early_costs_little(tree):
    nodes, root = tree
    rows = scan(nodes, root, start="part-0050000.csv")
    assert [next(rows).key for _ in range(3)] == [e.key for e in ENTRIES[50_000:50_003]]
    assert nodes.reads <= 2 + 64


def test_a_narrow_scan_reads_what_it_needs(tree):
    nodes, root = tree
    assert len(list(scan(nodes, root, prefix="part-00500"))) == 100
    assert nodes.reads <= DEPTH + 2


def test_reachable_reads_no_leaves_and_nothing_known(tree):
    nodes, root = tree
    new = edit(nodes, root, [("z", entry("z"))])
    nodes.reset()
    known = set(reachable(nodes, root))
    assert nodes.reads <= 3
    nodes.reset()
    assert len(list(reachable(nodes, new, known))) <= DEPTH
    assert nodes.reads <= DEPTH
    assert list(reachable(nodes, EMPTY_ROOT, known)) == list(reachable(nodes, root, known)) == []


def test_batches_start_small_on_each_level(tree):
    nodes, root = tree
    assert len(list(islice(scan(nodes, root), 20_000))) == 20_000
    assert nodes.reads <= 1 + 8 + 8 + 64  # the root, inner nodes, leaves

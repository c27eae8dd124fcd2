"""Cost as a contract: how many nodes are read and written, in how many calls."""

import pytest

from controlplane.core.tree import (
    EMPTY_ROOT,
    MemoryNodes,
    build,
    diff,
    diff_many,
    edit,
    lookup,
    reachable,
    scan,
    summaries,
    totals,
)
from controlplane.core.tree.shape import height
from tests.unit.tree.examples import entry, numbered

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


@pytest.mark.parametrize("changed", [ENTRIES[0].key, ENTRIES[50_000].key, ENTRIES[-1].key, "part-0050000.csv~", "z"])
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

"""Ranges of a tree: what they add up to, what differs, and how many nodes are read; also of 100
million partitions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from itertools import count, pairwise
from random import Random

import pytest

from controlplane.core import tree
from controlplane.core.tree import EMPTY_ROOT, Entry
from controlplane.core.tree.codec import ID, NodeColumns, encode, leaf_columns
from controlplane.core.tree.key_ranges import MOST_READS, Range, ranges
from controlplane.core.tree.shape import height
from dataplane.contract.identity import Content
from tests.trees import MemoryNodes


def entry(number: int, version: int = 0) -> Entry:
    return Entry(
        f"{number:09}", sha256(b"%d/%d" % (number, version)).digest(), Content(10, number, version)
    )


def built(nodes: MemoryNodes, numbers: Iterable[int]) -> bytes:
    return tree.build(nodes, map(entry, numbers))


def whole(found: Sequence[Range]) -> int:
    """Partitions in all, of ranges that follow on each other."""
    assert found[0].after is None
    assert all(one.last == following.after for one, following in pairwise(found))
    return sum(one.partitions for one in found)


def lit(found: Sequence[Range]) -> list[Range]:
    return [one for one in found if one.differs]


@pytest.mark.parametrize("size", [1, 365, 5_000, 150_000])
def test_ranges_add_up_and_one_late_partition_lights_one(size: int) -> None:
    nodes = MemoryNodes()
    root = built(nodes, range(0, 2 * size, 2))
    late = tree.edit(nodes, root, [(entry(size | 1).key, entry(size | 1))])
    nodes.reset()
    found = ranges(nodes, late, root)
    assert nodes.reads <= MOST_READS
    assert whole(found) == size + 1
    assert sum(one.rows for one in found) == 10 * (size + 1)
    assert len(found) <= 400
    [one] = lit(found)
    assert (one.after or "") < entry(size | 1).key <= one.last


def test_one_looks_into_a_range_down_to_the_partition() -> None:
    nodes = MemoryNodes()
    root = built(nodes, range(150_000))
    changed = tree.edit(nodes, root, [(entry(77_777).key, entry(77_777, 1))])
    found = lit(ranges(nodes, changed, root))
    for _ in range(5):
        [one] = found
        if one.partitions == 1:
            break
        found = ranges(nodes, changed, root, start=one.after, stop=one.last)
        assert sum(part.partitions for part in found) == one.partitions
        found = lit(found)
    assert found[0].last == entry(77_777).key


def test_partitions_that_are_gone_light_the_range_that_they_were_in() -> None:
    nodes = MemoryNodes()
    root = built(nodes, range(150_000))
    gone = [entry(n).key for n in range(60_000, 61_000)]
    found = ranges(nodes, tree.edit(nodes, root, [(key, None) for key in gone]), root)
    assert whole(found) == 149_000
    assert 1 <= len(lit(found)) <= 4
    assert all((one.after or "") <= gone[-1] and one.last >= gone[0] for one in lit(found))


def test_what_is_gone_behind_the_last_key_is_a_range_without_partitions() -> None:
    nodes = MemoryNodes()
    before, after = built(nodes, range(300)), built(nodes, range(200))
    found = ranges(nodes, after, before)
    assert lit(found) == [found[-1]]
    assert found[-1][:4] == (entry(199).key, entry(299).key, 0, 0)
    [all_gone] = ranges(nodes, EMPTY_ROOT, before)
    assert (all_gone.after, all_gone.last, all_gone.differs) == (None, entry(299).key, True)
    assert all(one.differs for one in ranges(nodes, before, EMPTY_ROOT))
    assert ranges(nodes, EMPTY_ROOT) == []


def test_equal_fragments_at_other_keys_are_no_equal_content() -> None:
    nodes = MemoryNodes()
    one, other = entry(1), entry(2)._replace(fragment=entry(1).fragment)
    before, after = tree.build(nodes, [one]), tree.build(nodes, [other])
    assert [found.differs for found in ranges(nodes, after, before)] == [True]


@pytest.mark.parametrize("seed", range(12))
def test_exactly_the_ranges_with_a_change_differ(seed: int) -> None:
    """At the lowest level, where all partitions are looked at."""
    nodes = MemoryNodes()
    before = {n for n in range(300) if sha256(b"%d,%d" % (seed, n)).digest()[0] < 200}
    after = {n for n in range(300) if sha256(b"%d.%d" % (seed, n)).digest()[0] < 40 * seed % 256}
    old, new = built(nodes, sorted(before)), built(nodes, sorted(after))
    found = ranges(nodes, new, old, cells=7)
    for one in found:
        keys = range(int(one.after or "-1") + 1, int(one.last) + 1)
        assert one.differs == any((n in before) != (n in after) for n in keys)
    assert sum(one.partitions for one in found) == len(after)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("cells", [1, 50, 400])
def test_no_change_is_in_a_range_that_is_said_to_be_equal(seed: int, cells: int) -> None:
    """Of upper nodes, whatever nodes begin and end anew with the change."""
    nodes, chance = MemoryNodes(), Random(seed)
    root = built(nodes, range(0, 60_000, 3))
    touched = chance.sample(range(70_000), 1 + 3 * seed)
    edits = [
        (entry(n).key, None if chance.random() < 0.4 else entry(n, 1)) for n in sorted(touched)
    ]
    found = ranges(nodes, tree.edit(nodes, root, edits), root, cells=cells)
    changed = [change.key for change in tree.diff(nodes, root, tree.edit(nodes, root, edits))]
    assert all(any((one.after or "") < key <= one.last for one in lit(found)) for key in changed)
    assert len(lit(found)) <= 3 * len(changed)


# --- 100 million ----------------------------------------------------------------------------------

LEAVES, PARTITIONS = 512, 509  # of a node, and of a leaf, by the mean
NODES = 384  # of the level above leaves


class Planted:
    """100 million partitions, of which only one way down is there: whoever reads another node finds
    none."""

    def __init__(self) -> None:
        self.blobs: dict[bytes, bytes] = {}
        self.reads = 0
        leaf_end = next(key for key in map(self.key, count()) if height(key) >= 1)
        node_end = next(key for key in map(self.key, count(1_000)) if height(key) >= 2)
        leaf = self._put(
            0, leaf_columns([Entry(leaf_end, sha256(b"").digest(), Content(10, 1, 1))])
        )
        ends = [leaf_end, *(self.key(1_000, f"/{n:03}") for n in range(LEAVES - 2)), node_end]
        node = self._put(1, self._rows(ends, leaf, PARTITIONS))
        tops = [node_end, *(self.key(10**11, f"/{n:03}") for n in range(NODES - 1))]
        self.root, _ = self._put(2, self._rows(tops, node, PARTITIONS * LEAVES))

    @staticmethod
    def key(number: int, rest: str = "") -> str:
        return f"{number:012}{rest}"

    def get_nodes(self, digests: Sequence[bytes]) -> Mapping[bytes, bytes]:
        self.reads += len(digests)
        return {digest: self.blobs[digest] for digest in digests}

    def put_nodes(self, nodes: Mapping[bytes, bytes]) -> None:
        self.blobs.update(nodes)

    def _rows(
        self, ends: Sequence[str], first: tuple[bytes, bytes], partitions: int
    ) -> NodeColumns:
        """The first child is there; of the others there is what their parent tells."""
        ids = [first[0], *(sha256(end.encode()).digest() for end in ends[1:])]
        other = (
            first[1][:ID]
            + partitions.to_bytes(8, "little")
            + (10 * partitions).to_bytes(8, "little")
            + bytes(16)
        )
        return NodeColumns(
            tuple(ends), b"".join(ids), b"".join([first[1], *[other] * (len(ends) - 1)])
        )

    def _put(self, level: int, columns: NodeColumns) -> tuple[bytes, bytes]:
        row, blob = encode(level, columns)
        self.blobs[row.id] = blob
        return row.id, row.rest


def test_100_million_partitions_are_told_from_a_few_nodes() -> None:
    nodes = Planted()
    found = ranges(nodes, nodes.root)
    assert whole(found) > 99_000_000
    assert 300 <= len(found) <= 400
    assert nodes.reads == 1
    inside = ranges(nodes, nodes.root, stop=found[0].last, cells=1_000)
    assert len(inside) > 200
    assert inside[-1].last == found[0].last
    below = ranges(nodes, nodes.root, stop=inside[0].last)
    assert [one.partitions for one in below] == [1]
    assert nodes.reads <= 100


def test_two_of_100_million_are_compared_by_a_few_nodes() -> None:
    nodes, other = Planted(), Planted()
    nodes.put_nodes(other.blobs)
    changed = tree.edit(
        nodes, nodes.root, [(nodes.key(0), Entry(nodes.key(0), bytes(32), Content(1, 2, 3)))]
    )
    nodes.reads = 0
    found = ranges(nodes, changed, nodes.root)
    assert lit(found) == found[:1]
    assert nodes.reads <= 100

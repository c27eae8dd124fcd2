"""The bytes of nodes: pinned for ever, and never believed when they are wrong."""

import struct
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.core.errors import CorruptNode
from controlplane.core.tree import (
    EMPTY_ROOT,
    Entry,
    NodeCache,
    diff,
    diff_keys,
    edit,
    lookup,
    reachable,
    scan,
    totals,
    warm,
)
from controlplane.core.tree.codec import (
    Node,
    NodeColumns,
    decode,
    encode,
    leaf_columns,
    node_digest,
)
from controlplane.core.tree.shape import height
from dataplane.contract.identity import EMPTY, Content
from tests.trees import MemoryNodes, keys_digest, verify
from tests.unit.tree.examples import ENDS, built, entry, numbered, odd_keys

SMALL = [
    Entry("", bytes(32), EMPTY),
    Entry("a\n", b"\1" * 32, Content(1, 2, 3)),
    Entry("é", b"\2" * 32, Content(4, 5, 6)),
]


def test_roots_are_pinned():
    nodes, small = built(SMALL)
    assert EMPTY_ROOT.hex() == "903a57d936bb1df083a6c2f9f9739995eb4ef654b3e48d02299cf5313b3b77f4"
    assert small.hex() == "b9d4437612f955c29d15e765b37fdedaac80e889a73c4c36614fa516030c70d6"
    assert (
        keys_digest(nodes, small).hex()
        == "1fbdc669003d34b7c2cc1f1b1dc21579f66db1eb7efb0495233a25711a3ae334"
    )
    assert (
        built(numbered(5000))[1].hex()
        == "45f8ec26a066489f05f69c63e1d2d7dc68f04a8f8723dc5bbee228bee13b389f"
    )
    assert (
        built(map(entry, ENDS))[1].hex()
        == "9040145fec481b3533f9846538bc0f406d9090451f0243a82cab8f89d85f4811"
    )


def test_the_bytes_of_a_leaf_are_those_that_are_described():
    nodes, root = built(
        [
            Entry("day=1", b"\1" * 32, Content(1, 2, 3)),
            Entry("day=2\n", b"\2" * 32, Content(4, 5, (1 << 64) - 1)),
        ]
    )
    blob = nodes.blobs[root]
    assert blob[:14] == struct.pack("<BBIII", 1, 0, 2, 4, 5)
    assert blob[46:78] == struct.pack("<4Q", 2, 5, 7, 2)
    assert blob[78:] == b"day=\xff1\xff2\n" + b"\1" * 32 + b"\2" * 32 + struct.pack(
        "<6Q", 1, 2, 3, 4, 5, (1 << 64) - 1
    )


def test_heights_are_pinned():
    assert [height(key) for key in ("", "a", "end-14d", "end-1b1", "end-8302")] == [0, 0, 1, 1, 2]


@given(st.sets(st.one_of(odd_keys, st.text(st.characters(exclude_categories=["Cs"]))), min_size=1))
def test_a_node_is_decoded_to_what_was_encoded(keys):
    columns = leaf_columns(map(entry, sorted(keys)))
    row, blob = encode(0, columns)
    node = decode(row.id, blob, {})
    assert node.columns == columns
    assert node.verify().totals.partitions == len(keys)
    assert encode(0, node.columns) == (row, blob)


LEAF = built(SMALL)
INNER = built(map(entry, sorted({*ENDS, "", "a\n", "é"})))
BLOBS = [nodes.blobs[digest] for nodes, root in (LEAF, INNER) for digest in reachable(nodes, root)]


@given(st.sampled_from(BLOBS), st.data())
def test_changed_bytes_are_found_by_their_digest(blob, data):
    at = data.draw(st.integers(0, len(blob) - 1))
    flipped = blob[:at] + bytes([blob[at] ^ data.draw(st.integers(1, 255))]) + blob[at + 1 :]
    for bad in (flipped, blob[:at], blob + b"\0"):
        with pytest.raises(CorruptNode, match=node_digest(blob).hex()):
            decode(node_digest(blob), bad, {})


@given(st.sampled_from(BLOBS), st.data())
def test_what_decodes_and_verifies_is_the_one_encoding_of_its_rows(blob, data):
    """Even under a digest of its own, a changed node is refused, or is a well-formed node with
    other rows."""
    start, stop = sorted(data.draw(st.tuples(st.integers(0, len(blob)), st.integers(0, len(blob)))))
    bad = blob[:start] + data.draw(st.binary(max_size=8)) + blob[stop:]
    node = verified(bad)
    assert node is None or encode(node.level, node.columns)[1] == bad


TINY = built(map(entry, ENDS[:4]))  # an inner node and four leaves


def every_damage(blob: bytes) -> Iterator[bytes]:
    """The blob cut short at each byte, and with each bit flipped."""
    yield from (blob[:stop] for stop in range(len(blob)))
    for at in range(len(blob)):
        yield from (blob[:at] + bytes([blob[at] ^ 1 << bit]) + blob[at + 1 :] for bit in range(8))


@pytest.mark.parametrize(("nodes", "root"), [LEAF, TINY], ids=["leaf", "inner"])
def test_no_damage_of_a_stored_node_is_believed(nodes, root):
    damaged = MemoryNodes()
    for store in (damaged, NodeCache(1 << 20).over(damaged)):
        for blob in every_damage(nodes.blobs[root]):
            damaged.blobs = nodes.blobs | {root: blob}
            with pytest.raises(CorruptNode, match=f"{root.hex()}: its bytes have another digest"):
                next(scan(store, root))


@pytest.mark.parametrize(("nodes", "root"), [LEAF, TINY], ids=["leaf", "inner"])
def test_a_damaged_node_under_its_own_digest_is_refused_by_name_or_has_other_rows(nodes, root):
    true = decode(root, nodes.blobs[root], {})
    for blob in every_damage(nodes.blobs[root]):
        node = verified(blob)
        assert node is None or (node.columns != true.columns and node.blob() == blob)


def verified(blob: bytes) -> Node | None:
    """The node of these bytes, or None if they are refused, by their name."""
    digest = node_digest(blob)
    try:
        node = decode(digest, blob, {})
        node.verify()
    except CorruptNode as error:
        if digest.hex() not in str(error):
            raise
        return None
    return node


def leaf_bytes(block: bytes = b"\xff1\xff2", **head: int) -> bytes:
    """A leaf of two rows, some of it replaced."""
    fields = {"version": 1, "level": 0, "rows": 2, "prefix": 0, "keys": len(block)} | head
    return struct.pack("<BBIII", *fields.values()) + bytes(64) + block + bytes(2 * 56)


@pytest.mark.parametrize(
    ("blob", "why"),
    [
        (b"", "cut short"),
        (leaf_bytes()[:77], "cut short"),
        (leaf_bytes(version=2), "version 2"),
        (leaf_bytes(level=9), "level 9"),
        (leaf_bytes(level=1), "do not hold"),
        (leaf_bytes(rows=0), "do not hold"),
        (leaf_bytes(rows=3), "do not hold"),
        (leaf_bytes(keys=1 << 31), "do not hold"),
        (leaf_bytes() + b"\0", "do not hold"),
        (leaf_bytes(b"\xff1"), "its prefix|1 keys for 2 rows"),
        (leaf_bytes(b"\xff1\xff2\xff3"), "3 keys for 2 rows"),
        (leaf_bytes(b"1\xff2"), "separator"),
        (leaf_bytes(b"\xff2\xff1"), "ascend"),
        (leaf_bytes(b"\xff1\xff1"), "ascend"),
        (leaf_bytes(b"\xff2\n\xff1"), "ascend"),
        (leaf_bytes(b"\xff1\xff\xc3"), "decode"),
        (leaf_bytes(b"\xff1\xff\xed\xa0\x80"), "decode"),
        (leaf_bytes(b"\xffa1\xffa2"), "prefix"),
        (leaf_bytes(b"a\n\xff\xff2", prefix=1, keys=4), "separator"),
        (leaf_bytes(), "summary"),
    ],
)
def test_malformed_nodes_are_refused_by_name(blob, why):
    with pytest.raises(CorruptNode, match=f"{node_digest(blob).hex()}: .*({why})"):
        decode(node_digest(blob), blob, {}).verify()


# Nodes that are well formed but do not belong where they are.


def tree_with(forge) -> tuple[MemoryNodes, bytes, list[bytes]]:
    """A tree of several leaves whose root is made anew of changed columns; also the digests of its
    true leaves."""
    nodes, root = built(ENTRIES)
    top = decode(root, nodes.blobs[root], {})
    row, blob = encode(top.level, forge(top.columns))
    nodes.put_nodes({row.id: blob})
    return nodes, row.id, list(top.ids())


ENTRIES = numbered(3000)

READERS = [
    lambda nodes, root: list(scan(nodes, root)),
    lambda nodes, root: lookup(nodes, root, [e.key for e in ENTRIES]),
    lambda nodes, root: list(diff(nodes, EMPTY_ROOT, root)),
    lambda nodes, root: list(diff_keys(nodes, EMPTY_ROOT, root)),
    lambda nodes, root: warm(nodes, [(root, [e.key for e in ENTRIES])]),
    lambda nodes, root: edit(nodes, root, [(e.key, None) for e in ENTRIES[::10]]),
    verify,
]


@pytest.mark.parametrize(
    "read", READERS, ids=["scan", "lookup", "diff", "diff_keys", "warm", "edit", "verify"]
)
def test_a_child_that_is_not_what_its_parent_says_is_refused(read):
    nodes, root, leaves = tree_with(lambda c: c._replace(ids=c.ids[:32] + c.ids[:32] + c.ids[64:]))
    with pytest.raises(CorruptNode, match=f"{leaves[0].hex()}: it is not what its parent says"):
        read(nodes, root)
    nodes, root, leaves = tree_with(lambda c: c._replace(rest=bytes(64) + c.rest[64:]))
    with pytest.raises(CorruptNode, match=f"{leaves[0].hex()}: it is not what its parent says"):
        read(nodes, root)


@pytest.mark.parametrize(
    "read", READERS, ids=["scan", "lookup", "diff", "diff_keys", "warm", "edit", "verify"]
)
def test_a_missing_node_is_named(read):
    nodes, root, leaves = tree_with(lambda c: c)
    del nodes.blobs[leaves[2]]
    with pytest.raises(CorruptNode, match=f"{leaves[2].hex()}: it is missing"):
        read(nodes, root)
    with pytest.raises(CorruptNode, match="00: it is missing"):
        read(nodes, bytes(32))


@pytest.mark.parametrize("read", READERS[:2], ids=["scan", "lookup"])
def test_a_leaf_that_ends_where_none_does_is_refused(read):
    nodes = MemoryNodes()
    rows = [(e.key, encode(0, leaf_columns([e]))) for e in ENTRIES[:2]]
    nodes.put_nodes({row.id: blob for _, (row, blob) in rows})
    keys, parts = tuple(key for key, _ in rows), [row for _, (row, _) in rows]
    top, blob = encode(
        1, NodeColumns(keys, b"".join(p.id for p in parts), b"".join(p.rest for p in parts))
    )
    nodes.put_nodes({top.id: blob})
    with pytest.raises(CorruptNode, match="no node ends at its last key"):
        read(nodes, top.id)


def test_verify_finds_nodes_that_other_shapes_would_have():
    nodes = MemoryNodes()
    row, blob = encode(0, leaf_columns(ENTRIES))
    nodes.put_nodes({row.id: blob})
    with pytest.raises(CorruptNode, match="goes on where a node must end"):
        verify(nodes, row.id)
    leaf, blob = encode(0, leaf_columns(SMALL))
    top, above = encode(1, NodeColumns((SMALL[-1].key,), *leaf))
    nodes.put_nodes({leaf.id: blob, top.id: above})
    with pytest.raises(CorruptNode, match="more than one child"):
        verify(nodes, top.id)


def test_wrong_sums_are_found_by_whoever_asks_for_them():
    nodes, root = built(ENTRIES)
    top = decode(root, nodes.blobs[root], {})
    blob = nodes.blobs[root].replace(top.summary, top.summary[:-1] + b"?")
    nodes.put_nodes({node_digest(blob): blob})
    for ask in (totals, keys_digest, verify):
        with pytest.raises(CorruptNode, match="summary"):
            ask(nodes, node_digest(blob))

"""A full check of trees that share nodes: each node once, everything that is wrong, and nothing
that is right."""

from hypothesis import given
from hypothesis import strategies as st

from controlplane.core.errors import CorruptNode
from controlplane.core.tree import EMPTY_ROOT, audit, build, edit, reachable, scan
from controlplane.core.tree.codec import encode, leaf_columns
from tests.trees import MemoryNodes
from tests.unit.tree.examples import ENDS, built, entry, numbered, states

MANY = numbered(3_000)  # a root above some leaves


def told(nodes, root, known):
    """Entries, and what is wrong."""
    found = list(audit(nodes, root, known))
    entries = [e for part in found if not isinstance(part, CorruptNode) for e in part]
    return entries, [str(part) for part in found if isinstance(part, CorruptNode)]


@given(states, states)
def test_what_is_whole_is_told_as_it_is(before, after):
    nodes = MemoryNodes()
    roots = [build(nodes, (entry(k, state[k]) for k in sorted(state))) for state in (before, after)]
    known: set[int] = set()
    first, wrong = told(nodes, roots[0], known)
    assert (first, wrong) == (list(scan(nodes, roots[0])), [])
    second, wrong = told(nodes, roots[1], known)
    assert wrong == []
    assert set(second) <= set(scan(nodes, roots[1]))
    assert set(scan(nodes, roots[1])) - set(first) <= set(second)
    assert told(nodes, roots[0], known) == told(nodes, EMPTY_ROOT, known) == ([], [])


def test_trees_that_share_nodes_cost_what_differs():
    nodes, root = built(MANY)
    known: set[int] = set()
    told(nodes, root, known)
    assert nodes.reads == len(nodes.blobs)
    other = edit(nodes, root, [(MANY[77].key, entry(MANY[77].key, 1))])
    nodes.reset()
    entries, _ = told(nodes, other, known)
    assert nodes.reads == 2
    assert entry(MANY[77].key, 1) in entries


@given(st.sets(st.integers(0, 12), max_size=3), st.sampled_from(["missing", "changed", "cut"]))
def test_every_damaged_node_is_told_once(which, damage):
    nodes, root = built(MANY)
    order = list(reachable(nodes, root))
    damaged = sorted({order[i % len(order)] for i in which})
    for digest in damaged:
        blob = nodes.blobs.pop(digest)
        if damage != "missing":
            nodes.blobs[digest] = (
                blob[:-1] if damage == "cut" else blob[:-1] + bytes([blob[-1] ^ 1])
            )
    known: set[int] = set()
    _, wrong = told(nodes, root, known)
    told_of = sorted(bytes.fromhex(text.split()[2].rstrip(":")) for text in wrong)
    assert told_of == ([root] if root in damaged else damaged)
    assert told(nodes, root, known)[1] == []


def test_what_lies_beside_damage_is_told():
    nodes, root = built(MANY)
    first, second, *_ = (digest for digest in reachable(nodes, root) if digest != root)
    of_first = {
        e.key
        for e in next(
            part for part in audit(nodes, root, set()) if not isinstance(part, CorruptNode)
        )
    }
    del nodes.blobs[first]
    entries, wrong = told(nodes, root, set())
    assert {e.key for e in entries} == {e.key for e in MANY} - of_first
    assert (second in nodes.blobs, len(wrong)) == (True, 1)


def test_a_shape_that_no_map_has_is_told():
    """Its digests are right."""
    row, blob = encode(0, leaf_columns([entry(key) for key in ENDS[:3]]))
    nodes = MemoryNodes()
    nodes.put_nodes({row.id: blob})
    assert told(nodes, row.id, set())[1] == [
        f"tree node {row.id.hex()}: it goes on where a node must end"
    ]

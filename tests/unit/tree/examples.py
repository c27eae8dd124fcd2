"""Maps to build trees of, and a strategy for keys. The entry of a key follows from the key and a
number."""

from collections.abc import Iterable, Mapping
from hashlib import sha256

from hypothesis import strategies as st

from controlplane.core.tree import Entry, build
from controlplane.core.tree.shape import height
from dataplane.contract.identity import Content
from tests.trees import MemoryNodes


def entry(key: str, version: int = 0) -> Entry:
    fragment = sha256(f"{version}/{key}".encode()).digest()
    content = Content(
        version + len(key),
        int.from_bytes(fragment[:8], "big"),
        int.from_bytes(fragment[8:16], "big"),
    )
    return Entry(key, fragment, content)


def numbered(count: int) -> list[Entry]:
    return [entry(f"part-{i:07d}.csv") for i in range(count)]


def built(entries: Iterable[Entry]) -> tuple[MemoryNodes, bytes]:
    nodes = MemoryNodes()
    return nodes, build(nodes, entries)


def root_of(state: Mapping[str, int]) -> bytes:
    """The root of the map from keys to versions, built from nothing."""
    return built(entry(key, state[key]) for key in sorted(state))[1]


def boundary_keys(count: int, least_height: int) -> list[str]:
    """Keys at which nodes end: without them, maps small enough for a random test have one leaf."""
    found: list[str] = []
    number = 0
    while len(found) < count:
        key = f"end-{number:x}"
        if height(key) >= least_height:
            found.append(key)
        number += 1
    return found


ENDS = sorted({*boundary_keys(40, 1), *boundary_keys(4, 2)})

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
odd_keys = st.sampled_from(
    ["", "\0", "a", "a\0", "a\n", "\n", "é" * 500, "x" * 1024, "\ud7ff", "\ue000", "\U0010ffff"]
)
keys = st.one_of(
    st.sampled_from(ENDS), texts, odd_keys, st.integers(0, 60).map("part-{:04d}".format)
)
states = st.dictionaries(keys, st.integers(0, 2), max_size=60)

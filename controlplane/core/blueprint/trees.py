"""Operations on trees of YAML nodes: merging of mappings, replacement of entries, and a bound of
the result."""

from __future__ import annotations

from collections.abc import Collection

from controlplane.core.blueprint.text_places import Position
from controlplane.core.blueprint.yaml_nodes import Entries, Node, Scalar

Pair = tuple[Scalar, Node]


def merged(over: Entries, under: Entries) -> Entries:
    """The entries of both. Where both have a key, mappings are merged, and anything else is that of
    `over`."""
    upper = {key.text: (key, value) for key, value in over.entries}
    lower = {key.text for key, _ in under.entries}
    pairs = [_merged_pair(pair, upper.get(pair[0].text)) for pair in under.entries]
    pairs += [pair for pair in over.entries if pair[0].text not in lower]
    return Entries(over.place, tuple(pairs))


def _merged_pair(under: Pair, over: Pair | None) -> Pair:
    if over is None:
        return under
    key, value = over
    if isinstance(value, Entries) and isinstance(under[1], Entries):
        return key, merged(value, under[1])
    return over


def without(node: Entries, keys: Collection[str]) -> Entries:
    return Entries(node.place, tuple(pair for pair in node.entries if pair[0].text not in keys))


def only(node: Entries, keys: Collection[str]) -> Entries:
    return Entries(node.place, tuple(pair for pair in node.entries if pair[0].text in keys))


def replaced(node: Entries, name: str, value: Node) -> Entries:
    """With another value of an existing key."""
    return Entries(
        node.place, tuple((key, value if key.text == name else old) for key, old in node.entries)
    )


def key_of(node: Entries, name: str) -> Scalar | None:
    return next((key for key, _ in node.entries if key.text == name), None)


def nothing(place: Position) -> Entries:
    return Entries(place, ())


def text_at(text: str, place: Position) -> Scalar:
    """A text that stands nowhere in the source; problems in it are reported at this place."""
    return Scalar(place, text, text, "", 0, 0)


def entries_at(place: Position, nodes: dict[str, Node]) -> Entries:
    """A mapping that stands nowhere in the source, nor do its keys."""
    return Entries(place, tuple((text_at(key, place), node) for key, node in nodes.items()))

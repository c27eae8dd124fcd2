"""Values of a blueprint replaced in its text, so that everything else stays as it is written:
comments, order, and the places that problems name."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

import yaml

from controlplane.core.model.json_values import JsonValue


class UnknownPath(Exception):
    """The blueprint has no value of that name. The text says which names are there."""


def with_values(text: str, values: Mapping[str, JsonValue]) -> str:
    """The text with other values. A name is `COMPONENT.KEY...`, for example
    `delays.params.late_minutes`.

    Raises UnknownPath for a name that the text does not have, also for a text that is not YAML.
    """
    for path, replacement in values.items():
        node = _node_at(text, path)
        written = json.dumps(replacement, ensure_ascii=False)
        if node.start_mark.index == node.end_mark.index:
            written = f" {written}"  # an empty value ends at its colon
        # A block ends at the beginning of the line behind it
        block = text[node.start_mark.index : node.end_mark.index]
        end = node.start_mark.index + len(block.rstrip())
        text = text[: node.start_mark.index] + written + text[end:]
    return text


def _node_at(text: str, path: str) -> yaml.Node:
    try:
        node = yaml.compose(text, yaml.SafeLoader)
    except yaml.YAMLError as error:
        raise UnknownPath(f"cannot set {path!r}: the text is not YAML: {error}") from None
    except RecursionError:
        raise UnknownPath(f"cannot set {path!r}: the text is nested too deeply") from None
    names = ["components", *path.split(".")]
    for depth, name in enumerate(names):
        entries = dict(_entries(node))
        if name not in entries:
            place = ".".join(names[1:depth]) or "the blueprint"
            listed = ", ".join(sorted(entries)) or "no keys"
            raise UnknownPath(f"cannot set {path!r}: {place} has no {name!r}; it has {listed}")
        node = entries[name]
    assert node is not None  # of an entry
    return node


def _entries(node: yaml.Node | None) -> Iterator[tuple[str, yaml.Node]]:
    """The entries of a mapping; none of any other node."""
    if isinstance(node, yaml.MappingNode):
        for key, node_of_key in node.value:
            yield str(key.value), node_of_key

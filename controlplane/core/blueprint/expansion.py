"""Blueprints written out: `defaults`, `templates`, `connections` and `schemas` are put where they
are used, `cdc` and `distinct` are transforms, and so is what `late` takes rows out of.

It works on the nodes of the document, which keep their places. So all that follows, identities
among it, sees a blueprint as if it had been written out.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import yaml

from controlplane.core.blueprint import (
    cdc_expansion,
    connections,
    defaults,
    late_expansion,
    templates,
)
from controlplane.core.blueprint.connectors import ByConnector
from controlplane.core.blueprint.language import READ_SECTIONS, WRITE_SECTIONS
from controlplane.core.blueprint.model import Read, Use, Write
from controlplane.core.blueprint.problems import BlueprintRefused, Problems
from controlplane.core.blueprint.templates import Template
from controlplane.core.blueprint.text_places import Position
from controlplane.core.blueprint.trees import Pair, key_of, replaced, without
from controlplane.core.blueprint.value_kinds import Reading
from controlplane.core.blueprint.yaml_nodes import (
    BrokenNode,
    Entries,
    Items,
    Node,
    NumberError,
    Scalar,
    YamlDocument,
    resolve,
)
from controlplane.core.blueprint.yaml_reader import MOST_BYTES, MOST_NODES

SECTIONS = ("defaults", "templates", "connections", "schemas")
COMPONENTS = "components"
NO_USES: Mapping[str, Use] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Expansion:
    """A document written out, and the components that took something from elsewhere in it."""

    document: YamlDocument
    uses: Mapping[str, Use]


@dataclass(frozen=True, slots=True)
class _Declared:
    """What components may use."""

    defaults: Entries | None
    templates: Mapping[str, Template]
    connections: Mapping[str, Entries]
    schemas: Mapping[str, Scalar]


def _keys(bodies: ByConnector[Read] | ByConnector[Write]) -> dict[str, Collection[str]]:
    return {
        name: [key.name for key in nested.section.keys] for name, nested in bodies.sections.items()
    }


KNOWN = {"read": _keys(READ_SECTIONS), "write": _keys(WRITE_SECTIONS)}


def expanded(document: YamlDocument, problems: Problems) -> Expansion:
    """Problems of declarations and of their uses are added; a component that cannot be written out
    is broken."""
    root = document.root
    components = root.get(COMPONENTS) if isinstance(root, Entries) else None
    if not isinstance(root, Entries) or not isinstance(components, Entries):
        return Expansion(document, NO_USES)
    declared = _Declared(
        defaults.declared(root.get("defaults"), KNOWN, problems),
        templates.declared(root.get("templates"), problems),
        connections.connections(root.get("connections"), problems),
        connections.schemas(root.get("schemas"), document, problems),
    )
    written, uses = _written_out(components, declared, Reading(document, {}, problems))
    expanded_root = without(replaced(root, COMPONENTS, written), SECTIONS)
    return Expansion(dataclasses.replace(document, root=expanded_root), uses)


def _written_out(
    components: Entries, declared: _Declared, reading: Reading
) -> tuple[Entries, dict[str, Use]]:
    uses: dict[str, Use] = {}
    pairs: list[tuple[Scalar, Node]] = []
    room = _Room(reading.problems)
    names = frozenset(key.text for key, _ in components.entries)
    reading = dataclasses.replace(reading, uses=uses)
    ends = (key.place for key, _ in components.entries[1:])
    for key, node in components.entries:
        end = next(ends, None)
        written = _component(key, node, declared, reading.problems)
        if written is not node:
            uses[key.text] = Use(key.text, key.place, end)
        of_component = reading.within(key.text)
        for name, body in _bodies(key, written, names, of_component):
            if body is not node:
                room.take(body, key.place)
            pairs.append((name, body))
    return Entries(components.place, tuple(pairs)), uses


def _bodies(
    key: Scalar, component: Node, names: frozenset[str], reading: Reading
) -> Iterator[Pair]:
    """What one component is written out as."""
    if isinstance(component, Entries) and late_expansion.takes_late_rows_out(component):
        return late_expansion.with_messages(key, component, names, reading)
    return cdc_expansion.with_transforms(key, component, names, reading)


def _component(key: Scalar, node: Node, declared: _Declared, problems: Problems) -> Node:
    """The node itself where it uses nothing."""
    if not isinstance(node, Entries):
        return node
    try:
        component = _from_template(key, node, declared, problems)
        component = _connected(component, declared, problems)
        if declared.defaults is not None:
            component = defaults.applied(component, declared.defaults, KNOWN)
        return _with_schema(component, declared, problems)
    except BlueprintRefused:
        return BrokenNode(node.place)


def _from_template(key: Scalar, node: Entries, declared: _Declared, problems: Problems) -> Entries:
    if key_of(node, templates.TEMPLATE) is not None:
        return templates.component(key.text, node, declared.templates, problems)
    if params := key_of(node, templates.PARAMS):
        hint = "name one: template: ..., or put the parameters of a transform below transform"
        problems.add(
            params.place, "unknown-key", "'params' belongs to a component with a template", hint
        )
        return without(node, (templates.PARAMS,))
    return node


def _connected(node: Entries, declared: _Declared, problems: Problems) -> Entries:
    for body in ("read", "write"):
        section = node.get(body)
        if isinstance(section, Entries) and key_of(section, connections.CONNECTION):
            connected = connections.connected(section, declared.connections, KNOWN[body], problems)
            node = replaced(node, body, connected)
    return node


def _with_schema(node: Entries, declared: _Declared, problems: Problems) -> Entries:
    for body in ("read", "transform"):
        section = node.get(body)
        if isinstance(section, Entries):
            with_columns = connections.with_schema(section, declared.schemas, problems)
            node = node if with_columns is section else replaced(node, body, with_columns)
    return node


class _Room:
    """A bound of all that is written out: nodes and characters. Raises BlueprintRefused past it."""

    def __init__(self, problems: Problems) -> None:
        self._problems = problems
        self._nodes = 0
        self._characters = 0

    def take(self, root: Node, place: Position) -> None:
        for node in _walk(root):
            self._nodes += 1
            self._characters += len(node.text) if isinstance(node, Scalar) else 0
            self._check(place)

    def _check(self, place: Position) -> None:
        hint = "split the dataflow"
        if self._nodes > MOST_NODES:
            message = f"more than {MOST_NODES:,} values once templates are written out"
            raise self._problems.refuse(place, "too-many-nodes", message, hint)
        if self._characters > MOST_BYTES:
            message = f"more than {MOST_BYTES:,} characters once templates are written out"
            raise self._problems.refuse(place, "too-large", message, hint)


def _walk(root: Node) -> Iterator[Node]:
    open_nodes: list[Node] = [root]
    while open_nodes:
        node = open_nodes.pop()
        yield node
        match node:
            case Items(items=items):
                open_nodes += items
            case Entries(entries=entries):
                open_nodes += (part for pair in entries for part in pair)
            case _:
                pass


def text_of(document: YamlDocument) -> str:
    """A document as YAML that is read back to the same values."""
    text: str = yaml.serialize(
        _yaml(document.root), Dumper=yaml.SafeDumper, width=100, allow_unicode=True
    )
    return text


_TEXT = "tag:yaml.org,2002:str"


def _yaml(node: Node) -> yaml.Node:
    match node:
        case Scalar():
            return yaml.ScalarNode(_tag(node), node.text, style=_style(node))
        case Items(items=items):
            is_flat = all(isinstance(item, Scalar) for item in items)
            return yaml.SequenceNode(
                "tag:yaml.org,2002:seq", [*map(_yaml, items)], flow_style=is_flat
            )
        case Entries(entries=entries):
            pairs = [(_yaml(key), _yaml(value)) for key, value in entries]
            return yaml.MappingNode("tag:yaml.org,2002:map", pairs, flow_style=not pairs)
        case _:
            return yaml.ScalarNode("tag:yaml.org,2002:null", "null")


def _tag(scalar: Scalar) -> str:
    """Texts are marked as such, so that they are quoted where YAML 1.1 would take them for
    something else."""
    if isinstance(scalar.value, str):
        return _TEXT
    tag: str = yaml.SafeLoader("").resolve(yaml.ScalarNode, scalar.text, (True, False))  # type: ignore[no-untyped-call]
    return tag


def _style(scalar: Scalar) -> str | None:
    if not isinstance(scalar.value, str):
        return None
    if "\n" in scalar.text.rstrip("\n"):
        return "|"
    return None if _is_plain_text(scalar.text) else "'"


def _is_plain_text(text: str) -> bool:
    """Whether YAML 1.2 takes it for a text without quotes."""
    try:
        return isinstance(resolve(text), str)
    except NumberError:
        return False

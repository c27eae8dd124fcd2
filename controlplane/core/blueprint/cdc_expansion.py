"""Components with `cdc:` or `distinct:` written out as transforms.

A log with truncates needs a second component, `<name>_truncates`: a truncate concerns the keys of
all partitions, and may have no key of its own. For snapshots it is `<name>_snapshots`. It is small,
and is read whole; so a new event redoes its own bucket only. The query calls it `truncates` or
`snapshots`: it does not change if the component gets another name.
"""

from __future__ import annotations

from collections.abc import Iterator

from controlplane.core.blueprint import defaults
from controlplane.core.blueprint.cdc import CDC, FROM, KEYS, SNAPSHOTS, TRUNCATES, ChangeData
from controlplane.core.blueprint.cdc_query import marks_query, result_query
from controlplane.core.blueprint.distinct_rows import DISTINCT
from controlplane.core.blueprint.problems import BlueprintRefused, shown
from controlplane.core.blueprint.text_forms import name as name_fault
from controlplane.core.blueprint.text_places import Position
from controlplane.core.blueprint.trees import Pair, entries_at, key_of, only, text_at
from controlplane.core.blueprint.value_kinds import Reading
from controlplane.core.blueprint.yaml_nodes import BrokenNode, Entries, Items, Node, Scalar

BODIES = {key.name: key for key in (CDC, DISTINCT)}
_OTHER_BODIES = ("read", "transform", "write")


def with_transforms(
    name: Scalar, component: Node, names: frozenset[str], reading: Reading
) -> Iterator[Pair]:
    """The component, and the one beside it. `names`: those of all components as written."""
    body = _body(component)
    section = component.get(body) if isinstance(component, Entries) else None
    if not isinstance(component, Entries) or section is None:
        yield name, component
        return
    before = reading.problems.noted
    try:
        cdc = BODIES[body].kind.read(section, reading)
    except BlueprintRefused:
        cdc = None
    if cdc is None or reading.problems.noted > before or not isinstance(section, Entries):
        yield name, BrokenNode(component.place)
        return
    beside = _name_beside(name, cdc, section)
    if beside is not None and is_name_refused(beside, name, names, reading):
        yield name, BrokenNode(component.place)
        return
    yield name, _transform(component, section, cdc, beside)
    if beside is not None:
        yield beside, _marks(component, section, cdc, beside.place)


def _body(component: Node) -> str:
    """The key of its section to write out; empty where there is none, or another body beside it."""
    if not isinstance(component, Entries):
        return ""
    bodies = [b for b in (*BODIES, *_OTHER_BODIES) if component.get(b) is not None]
    return bodies[0] if len(bodies) == 1 and bodies[0] in BODIES else ""


def _name_beside(name: Scalar, cdc: ChangeData, section: Entries) -> Scalar | None:
    """The name of the component beside it, at the key that asks for it."""
    key = SNAPSHOTS if cdc.is_of_snapshots else TRUNCATES
    written = key_of(section, key.name)
    if written is None or not (cdc.truncates or cdc.is_of_snapshots):
        return None
    return text_at(f"{name.text}_{key.name}", written.place)


def is_name_refused(beside: Scalar, name: Scalar, names: frozenset[str], reading: Reading) -> bool:
    """Whether the component beside it cannot be called so, which is reported."""
    if beside.text in names:
        message = f"there is a component {shown(beside.text)}, which {name.text} needs for itself"
        reading.problems.add(beside.place, "name-clash", message, "rename one of them")
        return True
    fault = name_fault(beside.text)
    if fault is None or name_fault(name.text) is not None:  # that is reported where it is read
        return fault is not None
    message = (
        f"{shown(name.text)} needs a component {shown(beside.text)} beside it: {fault.message}"
    )
    reading.problems.add(name.place, fault.code, message, f"{fault.hint}, in the name of this one")
    return True


def _transform(
    component: Entries, section: Entries, cdc: ChangeData, beside: Scalar | None
) -> Entries:
    place = _place(section, FROM.name)
    key_place = _place(section, KEYS.name)
    bucket = entries_at(key_place, {cdc.keys[0]: text_at(f"bucket {cdc.buckets}", key_place)})
    nodes: dict[str, Node] = {"partition_by": Items(key_place, (bucket,))}
    marks = ""
    if beside is not None:
        marks = _input_name(cdc)
        nodes["inputs"] = entries_at(beside.place, {marks: entries_at(place, {"from": beside})})
    nodes["sql"] = text_at(result_query(cdc, marks), place)
    transform = entries_at(place, nodes)
    pairs = (
        (text_at("transform", key.place), transform) if key.text in BODIES else (key, node)
        for key, node in component.entries
    )
    return Entries(component.place, tuple(pairs))


def _input_name(cdc: ChangeData) -> str:
    """What the query calls the component beside it."""
    name = SNAPSHOTS.name if cdc.is_of_snapshots else TRUNCATES.name
    return f"{name}_" if name == cdc.source else name


def _marks(component: Entries, section: Entries, cdc: ChangeData, place: Position) -> Entries:
    query = text_at(marks_query(cdc), _place(section, FROM.name))
    own = entries_at(place, {"transform": entries_at(place, {"sql": query})})
    return Entries(place, (*own.entries, *only(component, defaults.KEYS).entries))


def _place(section: Entries, key: str) -> Position:
    node = section.get(key)
    return node.place if node is not None else section.place

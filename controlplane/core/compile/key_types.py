"""Inputs that are read by a key only if its columns have the same types in all of them: decided
once types are known.

    fa.day DATE, b.day DATE      `by`: equal values are equal keys
    fa.day DATE, b.day STRING    `all`: 01 and 1 may meet as numbers, and are two keys as texts
    types of fa not known yet    undecided: nothing is computed before they are

A decision is a function of the transform and of the schemas of its inputs. So each caller with
these schemas comes to the same decision, and nothing of it is stored.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from controlplane.core.blueprint import KeyColumn
from controlplane.core.compile.nodes import Desired, Node, Slot, Transform
from controlplane.core.partitioning import column_fault, named
from dataplane.contract.schemas import Schema
from dataplane.contract.types import in_words


@dataclass(frozen=True, slots=True)
class KeyTypes:
    """The types of the parts of a key in each input that would be read by it; None where a type is
    not known."""

    key: tuple[str, ...]
    by_input: Mapping[str, tuple[str | None, ...]]

    @staticmethod
    def of(
        key: Sequence[KeyColumn],
        sides: Sequence[Slot],
        schemas: Mapping[str, Schema],
        *,
        case_sensitive: bool,
    ) -> KeyTypes:
        """`sides`: the inputs; `schemas`: those that are known, by the names of slots."""
        by_input: dict[str, tuple[str | None, ...]] = {}
        for side in sides:
            schema = schemas.get(side.name)
            types = (
                _type(schema, column, case_sensitive=case_sensitive) for column in side.columns
            )
            by_input[side.name] = tuple(types)
        return KeyTypes(tuple(part.column for part in key), by_input)

    @property
    def are_known(self) -> bool:
        return all(None not in types for types in self.by_input.values())

    @property
    def difference(self) -> tuple[str, str] | None:
        """The first part of the key that is known to have two types, and these in words."""
        for place, part in enumerate(self.key):
            types = {
                name: kind
                for name, kinds in self.by_input.items()
                if (kind := kinds[place]) is not None
            }
            if len(set(types.values())) > 1:
                words = " and ".join(f"{kind} in {name}" for name, kind in types.items())
                return part, f"{part} is {words}"
        return None


def decided(node: Transform, schemas: Mapping[str, Schema]) -> Transform:
    """The transform with the modes that follow from the schemas of all its inputs, by the names of
    its slots."""
    if node.by_key is None:
        return node
    sides = [slot for slot in node.by_key.slots if slot.mode == "by"]
    types = KeyTypes.of(node.key, sides, schemas, case_sensitive=node.is_case_sensitive)
    if types.difference is not None:
        return _with_whole_slots(node, *types.difference)
    words = unfit(node.key, sides, schemas, case_sensitive=node.is_case_sensitive)
    if words is not None:
        return replace(node, slots=tuple(_read_whole(slot, words, "") for slot in node.slots))
    return replace(node, slots=node.by_key.slots, logic=node.by_key.logic, own=node.by_key.own)


def all_decided(desired: Desired, schema_of: Callable[[str], Schema | None]) -> Desired:
    """With the modes of all transforms whose inputs have known schemas. `schema_of`: of a
    dataset."""
    nodes: dict[str, Node] = {}
    for dataset in desired.undecided:
        node = desired.nodes[dataset]
        assert node.is_transform
        schema_by_slot = {slot.name: schema_of(slot.dataset) for slot in node.slots}
        schemas = {name: schema for name, schema in schema_by_slot.items() if schema is not None}
        if len(schemas) == len(schema_by_slot):
            nodes[dataset] = decided(node, schemas)
    return replace(desired, nodes={**desired.nodes, **nodes}) if nodes else desired


def _with_whole_slots(node: Transform, part: str, words: str) -> Transform:
    slots = (_read_whole(slot, words, cure_of_types(part)) for slot in node.slots)
    return replace(node, slots=tuple(slots))


def _read_whole(slot: Slot, words: str, cure: str) -> Slot:
    return (
        replace(slot, reason=f"`all`: {words}", cure=cure, awaits_types=False)
        if slot.awaits_types
        else slot
    )


def cure_of_types(part: str) -> str:
    return f"to be read by {part}, CAST it to one type in all of these inputs"


def _type(schema: Schema | None, column: str, *, case_sensitive: bool) -> str | None:
    if schema is None:
        return None
    spelled = named(schema, column, case_sensitive=case_sensitive)
    return next(
        (in_words(field["type"]) for field in schema["fields"] if field["name"] == spelled), None
    )


def unfit(
    key: Sequence[KeyColumn],
    sides: Sequence[Slot],
    schemas: Mapping[str, Schema],
    *,
    case_sensitive: bool,
) -> str | None:
    """Why no keys are made of a column of an input, in words."""
    for side in sides:
        for part, column in zip(key, side.columns, strict=True):
            fault = column_fault(schemas[side.name], part, column, case_sensitive=case_sensitive)
            if fault is not None:
                return f"{side.name}: {fault}"
    return None

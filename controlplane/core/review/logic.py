"""Which parts of a component's logic differ, in words: what a logic id is made of.

Spaces and comments are no part of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from controlplane.core.compile.nodes import Node, Sink, Source, Transform

ABSENT = "nothing"


def logic_diff(before: Node, after: Node) -> tuple[str, ...]:
    """One entry for each part that differs, such as `params.minimum: 0 -> 5`."""
    match before, after:
        case Source(), Source():
            return (
                ()
                if before.logic == after.logic and before.listing == after.listing
                else _of_sources(before, after)
            )
        case Transform(), Transform():
            return () if before.logic == after.logic else _of_transforms(before, after)
        case Sink(), Sink():
            return () if before.identity == after.identity else ("where or how it writes",)
        case _:
            return ("the kind of component",)


def _of_sources(before: Source, after: Source) -> tuple[str, ...]:
    differences: list[str] = []
    if before.location != after.location:
        differences.append(f"location: {before.location} -> {after.location}")
    if before.declared != after.declared:
        differences.append("schema")
    old, new = dict(before.read.options), dict(after.read.options)
    differences += _settings("options.", old, new)
    plain = {"format": before.read.format, "schema_change": before.read.schema_change}
    differences += _settings(
        "", plain, {"format": after.read.format, "schema_change": after.read.schema_change}
    )
    if {c.id for c in before.checks if c.is_drop} != {c.id for c in after.checks if c.is_drop}:
        differences.append("the rows that are dropped")
    return tuple(differences) or ("how it is read",)


def _of_transforms(before: Transform, after: Transform) -> tuple[str, ...]:
    differences: list[str] = []
    if _code(before) != _code(after):
        differences.append("the query" if after.query else "the code")
    differences += _settings("params.", dict(before.body.params), dict(after.body.params))
    differences += _settings("inputs.", _modes(before), _modes(after))
    if before.key != after.key:
        differences.append("partition_by")
    differences += _settings("spark.", before.spark, after.spark)
    if {c.id for c in before.checks if c.is_drop} != {c.id for c in after.checks if c.is_drop}:
        differences.append("the rows that are dropped")
    if before.fold != after.fold:
        differences.append("the partition before that it reads")
    return tuple(differences) or ("what its logic is made of",)


def _code(node: Transform) -> bytes:
    if node.query is not None:
        return node.query.digest
    return node.bundle.digest if node.bundle is not None else b""


def _modes(node: Transform) -> dict[str, str]:
    return {slot.name: slot.mode for slot in node.slots}


def _settings(
    prefix: str, before: Mapping[str, object], after: Mapping[str, object]
) -> Iterator[str]:
    for name in sorted({*before, *after}):
        old, new = before.get(name, ABSENT), after.get(name, ABSENT)
        if old != new:
            yield f"{prefix}{name}: {old} -> {new}"

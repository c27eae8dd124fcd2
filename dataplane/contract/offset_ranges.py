"""Ranges of offsets of one partition of a topic, as source objects.

A range never changes: its version is its bounds, and the schema under which its values are read.
"""

from __future__ import annotations

from collections.abc import Sequence

from dataplane.contract.source_objects import SourceObject

KIND = "offsets:"


def offset_range(name: str, topic: str, partition: int, first: int, end: int) -> SourceObject:
    """A range as an object; its size is the number of offsets in it. `name`: of the topic; `topic`:
    its id, which differs once it was made again."""
    place = f"{partition}/{first}-{end}"
    return {
        "name": f"{name}/{place}",
        "uri": f"kafka:{topic}/{place}",
        "size": end - first,
        "modified_ms": 0,
        "version": f"{KIND}{first}-{end}",
        "columns": None,
        "detail": {"topic": topic, "partition": partition, "first": first, "end": end},
    }


def joined(ranges: Sequence[SourceObject]) -> SourceObject:
    """Ranges that follow each other, of one partition and one schema, as one. It was listed when
    the last of them was."""
    last = ranges[-1]
    name = last["name"].rsplit("/", 2)[0]
    detail = last["detail"]
    complete = offset_range(
        name, detail["topic"], detail["partition"], ranges[0]["detail"]["first"], detail["end"]
    )
    _, mark, schema = last["version"].partition(";")
    return {
        **last,
        "name": complete["name"],
        "uri": complete["uri"],
        "size": complete["size"],
        "version": f"{complete['version']}{mark}{schema}",
        "detail": {**detail, "first": complete["detail"]["first"]},
    }

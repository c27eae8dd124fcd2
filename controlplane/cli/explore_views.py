"""From answers of looking through to tables for people. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controlplane.cli.output import Lines, Table, View

if TYPE_CHECKING:  # a command that only says what it takes needs none of them
    from controlplane.core.model.answers.explore import GraphAnswer, Share


def graph(value: GraphAnswer) -> View:
    """Datasets in the order in which they are made, each with what it reads and how."""
    if value["groups"]:
        return _groups(value)
    reads: dict[str, list[str]] = {}
    for edge in value["edges"]:
        reads.setdefault(edge["to"], []).append(f"{edge['from']} ({edge['mode']})")
    rows = tuple(
        (node["name"], node["kind"], node["state"], node["partitions"], _share(node["share"]), told)
        for node in value["nodes"]
        for told in (", ".join(reads.get(node["name"], ())),)
    )
    return [Table("", ("dataset", "kind", "state", "partitions", "left", "reads"), rows), *_more(value)]


def _groups(value: GraphAnswer) -> View:
    reads: dict[str, list[str]] = {}
    for edge in value["group_edges"]:
        reads.setdefault(edge["to"], []).append(edge["from"] or "(none)")
    rows = tuple(
        (one["name"] or "(none)", one["members"], one["state"], one["partitions"], _share(one["share"]), told)
        for one in value["groups"]
        for told in (", ".join(reads.get(one["name"], ())),)
    )
    return [Table("", ("group", "datasets", "state", "partitions", "left", "reads"), rows), *_more(value)]


def _share(share: Share) -> str:
    """What is not done."""
    left = [f"{share['to_do']} to do"] if share["to_do"] else []
    left += [f"{share['failed']} failed"] if share["failed"] else []
    return ", ".join(left)


def _more(value: GraphAnswer) -> View:
    if not value["more"]:
        return []
    return [Lines((f"... and {value['more']} more: --limit shows more, --around what is near, --collapse all as one",))]

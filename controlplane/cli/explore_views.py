"""From answers of looking through to tables for people. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from controlplane.cli.output import Lines, TextTable, View, partition_name
from dataplane.contract.keys import plain_key

if TYPE_CHECKING:  # a command that only says what it takes needs none of them
    from controlplane.core.model.answers.datasets import Changes
    from controlplane.core.model.answers.explore import (
        GraphAnswer,
        PartitionAnswer,
        RangesAnswer,
        SearchAnswer,
        SearchMatch,
        Share,
        WaveAnswer,
        WavesAnswer,
    )
    from controlplane.core.model.answers.lineage import LineagePartitions


SHOWN = 4  # partitions or objects of a line


def search(value: SearchAnswer) -> View:
    rows = tuple(
        (hit["dataset"], hit["kind"], hit["state"], _matches(hit["matches"], hit["more"]))
        for hit in value["items"]
    )
    left = value["total"] - len(value["items"])
    lines = [f"... and {left} more: --limit shows more"] if left else []
    lines += value["notes"]
    if not rows:
        lines.append(
            "nothing was found in names, columns, descriptions, tags, owners and partitions"
        )
        return [Lines(tuple(lines))]
    return [
        TextTable(("dataset", "kind", "state", "found"), rows),
        *([Lines(tuple(lines))] if lines else []),
    ]


def _matches(matches: Sequence[SearchMatch], unshown: int) -> str:
    places = [
        match["text"] if match["field"] == "description" else f"{match['field']} {match['text']}"
        for match in matches
    ]
    return ", ".join(places) + (f", ... and {unshown} more" if unshown else "")


def graph(value: GraphAnswer) -> View:
    """Datasets in the order in which they are made, each with its inputs and their modes."""
    if value["groups"]:
        return _groups(value)
    reads: dict[str, list[str]] = {}
    for edge in value["edges"]:
        reads.setdefault(edge["to"], []).append(f"{edge['from']} ({edge['mode']})")
    rows = tuple(
        (
            node["name"],
            node["kind"],
            node["state"],
            node["partitions"],
            _share(node["share"]),
            inputs,
        )
        for node in value["nodes"]
        for inputs in (", ".join(reads.get(node["name"], ())),)
    )
    return [
        TextTable(("dataset", "kind", "state", "partitions", "left", "reads"), rows),
        *_unshown_nodes(value),
    ]


def _groups(value: GraphAnswer) -> View:
    reads: dict[str, list[str]] = {}
    for edge in value["group_edges"]:
        reads.setdefault(edge["to"], []).append(edge["from"] or "(none)")
    rows = tuple(
        (
            group["name"] or "(none)",
            group["members"],
            group["state"],
            group["partitions"],
            _share(group["share"]),
            inputs,
        )
        for group in value["groups"]
        for inputs in (", ".join(reads.get(group["name"], ())),)
    )
    return [
        TextTable(("group", "datasets", "state", "partitions", "left", "reads"), rows),
        *_unshown_nodes(value),
    ]


def _share(share: Share) -> str:
    """The remaining tasks."""
    left = [f"{share['to_do']} to do"] if share["to_do"] else []
    left += [f"{share['failed']} failed"] if share["failed"] else []
    return ", ".join(left)


def _unshown_nodes(value: GraphAnswer) -> View:
    if not value["more"]:
        return []
    return [
        Lines(
            (
                f"... and {value['more']} more: --limit shows more, --around what is near, --collapse all as one",
            )
        )
    ]


# --- waves ----------------------------------------------------------------------------------------


WAVES = (
    "wave",
    "at",
    "started by",
    "changed",
    "unchanged",
    "not affected",
    "computed",
    "reused",
    "exports",
)


def waves(value: WavesAnswer) -> View:
    rows = tuple(
        (
            wave["id"],
            f"{wave['at'][:19].replace('T', ' ')}Z",
            wave["reason"] + (f", by {wave['actor']}" if wave["actor"] else ""),
            wave["reached"],
            wave["stopped"],
            wave["left_alone"],
            wave["tasks"]["executed"],
            wave["tasks"]["adopted"],
            len(wave["exports"]),
        )
        for wave in value["items"]
    )
    next_page = [] if value["next"] is None else [Lines((f"more: --before {value['next']}",))]
    return [TextTable(WAVES, rows), *next_page]


def wave(value: WaveAnswer) -> View:
    by = f", by {value['actor']}" if value["actor"] else ""
    rows = tuple(
        (
            step["dataset"],
            step["generation"],
            step["cause"],
            step["rows"],
            change_counts(step["changes"]),
        )
        for step in value["steps"]
    )
    left = [f"not affected: {', '.join(value['untouched'])}"] if value["untouched"] else []
    left += [f"exports written: {', '.join(value['exports'])}"] if value["exports"] else []
    return [
        TextTable(
            ("dataset", "generation", "cause", "rows", "partitions"),
            rows,
            f"{value['id']}: {value['reason']}{by}",
        ),
        *([Lines(tuple(left))] if left else []),
    ]


def change_counts(changes: Changes | None) -> str:
    """How many partitions; nothing where that is not known."""
    if changes is None:
        return ""
    counts = [
        f"{changes[word]} {word}" for word in ("added", "changed", "removed") if changes[word]
    ]
    return ("" if changes["is_all"] else "at least ") + (", ".join(counts) or "as they were")


# --- partitions -----------------------------------------------------------------------------------


def ranges(value: RangesAnswer) -> View:
    compared = value["against"] is not None
    columns = ("behind", "to", "partitions", "rows", *(("differs",) if compared else ()))
    rows = tuple(
        (
            "" if span["after"] is None else span["after"] or "(whole)",
            span["last"] or "(whole)",
            span["partitions"],
            span["rows"],
            *(("yes" if span["differs"] else "",) if compared else ()),
        )
        for span in value["items"]
    )
    title = f"generation {value['generation']}" + (
        f" against {value['against']}" if compared else ""
    )
    total = f"{value['partitions']} partitions, {value['rows']} rows; {value['reads']} tree nodes were read"
    return [TextTable(columns, rows, title), Lines((total,))]


def partition(value: PartitionAnswer) -> View:
    since, attempt = value["since"], value["attempt"]
    size = (
        "" if value["bytes"] is None else f", {value['bytes']} bytes in {len(value['files'])} files"
    )
    came = "since" if since["is_exact"] else "since, at the latest,"
    lines = [
        f"{value['dataset']}@{value['generation']}/{plain_key(value['partition'])}: {value['rows']} rows{size}",
        f"as it is {came} generation {since['generation']} of {since['at'][:19]}Z ({since['cause']})",
    ]
    if attempt is not None:
        took = "" if value["task_seconds"] is None else f", {value['task_seconds']:g} s a task"
        lines.append(f"written by attempt {attempt['attempt']} of {attempt['driver']}{took}")
    lines += [
        f"made of {_slot(source['slot'], source['dataset'])}{source['mode']}: {_parts(source)}"
        for source in value["inputs"]
    ]
    lines += [f"object {uri}" for source in value["objects"] for uri in source["objects"][:SHOWN]]
    lines += [
        f"read by {reader['dataset']} ({reader['mode']}): {_parts(reader)}"
        for reader in value["readers"]
    ]
    lines += [f"file {file['path']}" for file in value["files"]]
    return [Lines((*lines, *value["notes"]))]


def _slot(slot: str, dataset: str) -> str:
    name = dataset if slot in (dataset, dataset.partition(".")[2]) else f"{dataset} as {slot}"
    return f"{name}, "


def _parts(source: LineagePartitions) -> str:
    if source["generation"] is None and not source["partitions"]:
        return "not kept any more"
    if source["whole"]:
        return f"all {source['count']}"
    shown = [partition_name(key) for key in source["partitions"][:SHOWN]]
    rest = source["count"] - len(shown)
    return (", ".join(shown) or "none") + (f", ... and {rest} more" if rest > 0 else "")

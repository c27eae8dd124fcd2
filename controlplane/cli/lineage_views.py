"""From the answer of `lineage` to lines for people: the subject first, then the way from it.
Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from controlplane.cli.output import Lines, View, partition_name

if TYPE_CHECKING:  # a command that only says what it takes needs none of them
    from controlplane.core.model.answers.lineage import (
        ColumnLink,
        LineageAnswer,
        LineageComponent,
        LineageObjects,
        LineagePartitions,
        Provenance,
    )

SHOWN = 4  # partitions or objects of a line
DEEPEST = 100  # links from the subject
_Place = tuple[str, str | None]  # a dataset, and a column; None: its rows


def lineage(value: LineageAnswer) -> View:
    """The dataset, its columns with their origins or dependents, partitions, and source objects."""
    lines = [_head(value)]
    if provenance := value["provenance"]:
        lines += _provenance(provenance)
    lines += value["notes"]
    lines += _columns(value)
    if value["more"]:
        lines.append(f"... and {value['more']} more links: --limit shows more, --column fewer")
    lines += [
        _partitions(source)
        for source in value["partitions"]
        if source["dataset"] != value["dataset"]
    ]
    lines += [_objects(source) for source in value["objects"]]
    lines += [
        f"over-reported: {source['dataset']}: {reason}"
        for source in value["components"]
        for reason in source["over_reported"]
    ]
    return [Lines(tuple(lines))]


def _head(value: LineageAnswer) -> str:
    name = value["dataset"] + (f"/{value['partition']}" if value["partition"] is not None else "")
    asks = "comes from" if value["direction"] == "upstream" else "is read by"
    return (
        f"{name} {asks}:"
        if value["links"] or value["partitions"]
        else f"{name} {asks} nothing that is known"
    )


def _provenance(value: Provenance) -> Iterator[str]:
    by = f" of {value['actor']}" if value["actor"] else ""
    at = value["at"][:19].replace("T", " ")
    yield f"generation {value['generation']} at {at}Z, by revision {value['revision']}{by}"
    if value["attempt"]:
        versions = ", ".join(
            f"{name} {version}" for name, version in (value["versions"] or {}).items()
        )
        yield f"written by attempt {value['attempt']}" + (f" ({versions})" if versions else "")


# --- columns --------------------------------------------------------------------------------------


def _columns(value: LineageAnswer) -> Iterator[str]:
    is_up = value["direction"] == "upstream"
    following: dict[_Place, list[ColumnLink]] = {}
    for link in value["links"]:
        place = (
            (link["dataset"], link["column"]) if is_up else (link["of_dataset"], link["of_column"])
        )
        following.setdefault(place, []).append(link)
    components = {component["dataset"]: component for component in value["components"]}
    shown: set[_Place] = set()
    for column in value["columns"]:
        if not is_up and (value["dataset"], column) not in following:
            continue
        yield f"  {column}"
        yield from _tree(
            (value["dataset"], column), following, components, shown, depth=2, is_up=is_up
        )
    if is_up:
        yield from _rows(value["links"])


def _tree(
    place: _Place,
    following: Mapping[_Place, Sequence[ColumnLink]],
    components: Mapping[str, LineageComponent],
    shown: set[_Place],
    *,
    depth: int,
    is_up: bool,
) -> Iterator[str]:
    shown.add(place)
    for link in following.get(place, ()):
        then = (
            (link["of_dataset"], link["of_column"]) if is_up else (link["dataset"], link["column"])
        )
        steps = ", ".join(step.lower().replace("_", " ") for step in link["steps"])
        line = f"{'  ' * depth}{'<-' if is_up else '->'} {_name(then)}" + (
            f" ({steps})" if steps else ""
        )
        if location := _location(components.get(then[0])):
            line += f" {location}"
        if then in shown and then in following:
            yield f"{line}; see above"
            continue
        yield line
        if depth < DEEPEST:
            yield from _tree(then, following, components, shown, depth=depth + 1, is_up=is_up)


def _name(place: _Place) -> str:
    dataset, column = place
    return f"rows of {dataset}" if column is None else f"{dataset}.{column}"


def _location(component: LineageComponent | None) -> str:
    if component is None or component["location"] is None:
        return ""
    return f"{'from' if component['kind'] == 'read' else 'at'} {component['location']}"


def _rows(links: Sequence[ColumnLink]) -> Iterator[str]:
    """The columns that decide which rows there are, in each dataset on the way."""
    by_dataset: dict[str, list[str]] = {}
    for link in links:
        if link["column"] is None:
            steps = ", ".join(step.lower().replace("_", " ") for step in link["steps"])
            by_dataset.setdefault(link["dataset"], []).append(
                f"{link['of_dataset']}.{link['of_column']} ({steps})"
            )
    for dataset, deciding in by_dataset.items():
        yield f"  rows of {dataset}"
        yield from (f"    <- {column}" for column in deciding)


# --- partitions and objects -----------------------------------------------------------------------


def _partitions(source: LineagePartitions) -> str:
    if source["generation"] is None:
        return f"partitions of {source['dataset']}: not kept any more"
    if source["whole"]:
        return f"partitions of {source['dataset']} ({source['mode']}): all {source['count']}"
    return f"partitions of {source['dataset']} ({source['mode']}): {_some(source['partitions'], source['count'])}"


def _objects(source: LineageObjects) -> str:
    text = f"objects of {source['dataset']}: {_some(source['objects'], len(source['objects']))}"
    if source["partitions"] > source["shown"]:
        text += f", and those of {source['partitions'] - source['shown']} more partitions"
    return text + (
        f"; {source['changed']} partitions have other objects by now" if source["changed"] else ""
    )


def _some(names: Sequence[str], count: int) -> str:
    shown = [partition_name(name) for name in names[:SHOWN]]
    rest = count - len(shown)
    return (", ".join(shown) or "none") + (f", ... and {rest} more" if rest > 0 else "")

"""From the answer of `why` to lines for people: the cause first, then the way down to it. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING

from controlplane.cli.output import Lines, View, partition_name
from controlplane.cli.source_views import second_of
from controlplane.cli.views import PARTITIONS_SHOWN, failure, reading, time_of
from controlplane.cli.work_views import took
from dataplane.contract.keys import plain_key

if TYPE_CHECKING:  # a command that only says what it takes needs none of them
    from controlplane.core.model.answers import (
        SourceOrigin,
        VolatileConstruct,
        WhyAnswer,
        WhyHeldUp,
        WhyNode,
    )


def why(value: WhyAnswer, *, shows_all: bool = False) -> View:
    """How a dataset stands, its cause, what keeps it from being worked on, and the tree of
    causes."""
    return [Lines((_head(value), *facts(value, shows_all=shows_all)))]


def facts(answer: WhyAnswer, *, shows_all: bool = False) -> tuple[str, ...]:
    """All lines below the first one."""
    lines = [*_late(answer), *_reasons(answer), *took(answer.get("work"))]
    if held := answer.get("held_up"):
        lines += _held_up(held, answer)
    lines += [f"stopped here: {stop['sentence']}" for stop in answer.get("stopped") or ()]
    if top := answer.get("tree"):
        lines += _tree(top, depth=1)
    if shows_all:
        lines += [f"source: {_source(s)}" for s in answer["sources"]]
        lines += [f"reads {reading(name, mode)}" for name, mode in answer["modes"].items()]
    lines += [f"slices: {answer['roll_up']}"] if "roll_up" in answer else []
    lines += [f"resources: {answer['resources']}"] if "resources" in answer else []
    lines += [f"volatile: {_construct(construct)}" for construct in answer.get("volatile") or ()]
    lines += [f"logic: {answer['logic']}"] if answer.get("logic") else []
    lines += [f"{d['kind']} {d['state']}: {d['reason']}" for d in answer.get("drivers") or ()]
    return (*lines, *failure(answer.get("error"), dataset=answer["dataset"]))


def _head(value: WhyAnswer) -> str:
    name = value["dataset"] + (f"/{plain_key(value['partition'])}" if value["partition"] else "")
    generation = f", generation {value['generation']}" if value["generation"] else ""
    if at := value.get("at"):
        return f"{name}{generation}, was committed at {at}"
    stands = "has failed" if value["state"] == "failed" else f"is {value['state']}"
    return f"{name} {stands}{generation}"


def _late(value: WhyAnswer) -> Iterator[str]:
    """That its data is older than it expects."""
    fresh = value.get("freshness")
    if fresh is not None and fresh["late"]:
        yield f"overdue: {fresh['reason']}"


def _reasons(value: WhyAnswer) -> Iterator[str]:
    """The cause, and further reasons."""
    if value["sentence"]:
        yield f"cause: {value['sentence']}"
    reason = value["reason"]
    if reason.startswith("it is up to date"):
        # Its watermark stands behind its cause, which is shown already
        _, _, reason = reason.partition(f"{value['sentence']}; ")
    if reason and value["held_up"] is None:
        yield reason


def _held_up(held: WhyHeldUp, value: WhyAnswer) -> Iterator[str]:
    """Why nothing is done now. The error of the dataset itself comes last, in whole."""
    since = f" at {time_of(datetime.fromisoformat(held['at']).timestamp())}" if held["at"] else ""
    yield f"held up: {held['sentence']}{since}"
    if held["fix"]:
        yield f"  to go on: {held['fix']}"
    if held["dataset"] != value["dataset"]:
        yield from failure(held["error"], held["dataset"])


def _tree(node: WhyNode, depth: int) -> Iterator[str]:
    """A dataset, and below it the inputs that led to it."""
    yield f"{'  ' * depth}{_node(node)}"
    for above in node["inputs"]:
        yield from _tree(above, depth + 1)


def _node(node: WhyNode) -> str:
    dataset, sentence = node["dataset"], node["sentence"]
    parts = [sentence if sentence.startswith(f"{dataset} ") else f"{dataset}: {sentence}"]
    if any(node["partitions"]):
        parts.append(f"in {_partitions(node)}")
    if node["repeated"]:
        parts.append("see above")
    elif node["at"] and not node["pending"]:
        parts.append(f"generation {node['generation']} at {node['at'][:19].replace('T', ' ')}Z")
    return "; ".join(parts)


def _partitions(node: WhyNode) -> str:
    """The first of them, and how many more there are."""
    shown = node["partitions"][:PARTITIONS_SHOWN]
    names = ", ".join(map(partition_name, shown))
    rest = max(node["count"], len(node["partitions"])) - len(shown)
    return names + (f", ... {rest} more" if rest > 0 else "")


def _construct(construct: VolatileConstruct) -> str:
    place = f"line {construct['line']}" + (
        f" of {construct['file']}" if construct.get("file") else ""
    )
    return f"{construct['construct']} at {place}"


def _source(source: SourceOrigin) -> str:
    objects = ": " + ", ".join(source["objects"]) if source.get("objects") else ""
    due = f"; next look at {second_of(source['due'])}" if "due" in source else ""
    return f"{source['dataset']} of {source['location']}{objects}{due}"

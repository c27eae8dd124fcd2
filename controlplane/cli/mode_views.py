"""How inputs are kept, and what late partitions cost, for a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from controlplane.cli.output import Lines, TextTable, View

if TYPE_CHECKING:
    from controlplane.core.model.answers.plans import KeptInput, LatePartition, PlanModes

COLUMNS = ("component", "input", "kept", "why")
LATE_COLUMNS = ("one late partition of", "tasks", "partitions", "seconds")


def mode_tables(modes: PlanModes) -> View:
    """Two tables, and a line for each dataset whose cost is not known. Empty of a plan without
    components."""
    if not (modes["late"] or modes["inputs"]):
        return []
    inputs = tuple(_row(kept_input) for kept_input in modes["inputs"])
    late = tuple(_late_row(partition) for partition in modes["late"])
    lines = [line for partition in modes["late"] for line in _unknown(partition)]
    if modes["left_out"]:
        lines.append(f"... {modes['left_out']} more inputs; name a blueprint to see its own")
    return [TextTable(COLUMNS, inputs), TextTable(LATE_COLUMNS, late), Lines(tuple(lines))]


def _row(kept_input: KeptInput) -> tuple[str, str, str, str]:
    mode = kept_input["kept_as"]
    shown = f"by {', '.join(kept_input['key'])}" if mode == "by" else mode
    cure = f"; {kept_input['cure']}" if "cure" in kept_input else ""
    reason = kept_input["reason"].removeprefix(f"`{kept_input['mode']}`").lstrip(": ")
    return kept_input["component"], kept_input["input"], shown, reason + cure


def _late_row(partition: LatePartition) -> tuple[str, int, int, str]:
    seconds = partition["seconds"]
    time = "not known" if seconds is None else f"{seconds:,.1f}"
    return partition["source"], partition["tasks"], partition["partitions"], time


def _unknown(partition: LatePartition) -> Iterator[str]:
    """Lines for datasets that are not in the figures."""
    if uncounted := partition["uncounted"]:
        yield f"{partition['source']}: partitions of {', '.join(uncounted)} are not known"
    if partition["seconds"] is not None and partition["untimed"]:
        yield f"{partition['source']}: seconds of {', '.join(partition['untimed'])} are not known"

"""Tumbling windows of time, as analysed plans have them.

Spark makes `window(at, '10 minutes')` a column, a struct, below the node that groups by the window.
The struct's `start` is arithmetic on microseconds: the time, less its remainder by the length. Only
this form is recognised. Sliding windows, windows with another first start, and windows over texts or
dates have other forms.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from dataplane.spark.plan_json import PlanNode


@dataclass(frozen=True, slots=True)
class WindowStart:
    """The last multiple of a length since 1970-01-01 UTC that is not after a time, by the number of
    its attribute."""

    time: int
    length_us: int

    def lies_within(self, seconds: int) -> bool:
        """Whether no such window crosses a multiple of so many seconds. False for 0."""
        return seconds > 0 and seconds * 1_000_000 % self.length_us == 0


def start_of_window(struct: PlanNode) -> WindowStart | None:
    """The start that is the first member of this struct; None for all other expressions."""
    if struct.kind != "CreateNamedStruct":
        return None
    words = list(_words(struct.children[1]))
    times = {word for word in words if word.startswith("#")}
    lengths = {word for word in words if word[:1] == "=" and word != "=0"}
    if len(times) != 1 or len(lengths) != 1:
        return None
    [time], [length] = times, lengths
    if words != _start(time, length).split():
        return None
    return WindowStart(int(time[1:]), int(length[1:]))


def struct_of_start(member: PlanNode) -> int | None:
    """The number of the attribute whose first member this is."""
    if member.kind != "GetStructField" or int(member.fields["ordinal"]) != 0:
        return None
    [struct] = member.children
    return struct.id if struct.kind == "AttributeReference" else None


def _words(node: PlanNode) -> Iterator[str]:
    """The nodes of an expression, each before those below it."""
    match node.kind:
        case "AttributeReference":
            yield f"#{node.id}"
        case "Literal":
            yield f"={node.fields['value']}"
        case _:
            yield node.kind
            for child in node.children:
                yield from _words(child)


def _start(time: str, length: str) -> str:
    """As `TimeWindowing` of Spark 4.2 makes it. A remainder has the sign of the time."""
    since_1970 = f"PreciseTimestampConversion {time}"
    remainder = f"Remainder Subtract {since_1970} =0 {length}"
    positive = f"CaseWhen LessThan {remainder} Cast =0 Add {remainder} {length} {remainder}"
    start = f"Subtract Subtract {since_1970} {positive} =0"
    return f"KnownNullable PreciseTimestampConversion {start}"

"""Tumbling windows of time, as they stand in analysed plans.

Spark makes `window(at, '10 minutes')` a column of its own, a struct, below what groups by it. Its
`start` is arithmetic on microseconds: the time less what is left over of it by the length. It is
looked for in just that form. Sliding windows, other first starts, and texts or dates, which are cast
before, have other ones.
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
    """The first member of this struct; None if it is in any other form."""
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

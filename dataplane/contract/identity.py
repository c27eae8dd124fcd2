"""Ids that both planes compute alike: of contents, fragments, packs, slots and tasks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from dataplane.contract.encoding import Encoded, digest
from dataplane.contract.schemas import Schema, encoded

MASK = (1 << 64) - 1


class Content(NamedTuple):
    """Fingerprint of a multiset of rows: row count and the sums, mod 2^64, of two 64-bit row
    hashes."""

    rows: int
    sum1: int
    sum2: int

    def plus(self, other: Content) -> Content:
        return Content(
            self.rows + other.rows, (self.sum1 + other.sum1) & MASK, (self.sum2 + other.sum2) & MASK
        )

    def minus(self, other: Content) -> Content:
        return Content(
            self.rows - other.rows, (self.sum1 - other.sum1) & MASK, (self.sum2 - other.sum2) & MASK
        )


EMPTY = Content(0, 0, 0)


def schema_id(schema: Schema) -> bytes:
    return digest("schema/1", schema=encoded(schema))


class MeasuredBy(NamedTuple):
    """By which rule the event times of a slice's rows were measured, and when the slice was listed
    (in milliseconds since 1970)."""

    column: str
    max_ahead_us: int
    listed_ms: int


def fragment_id(
    schema: Schema | Encoded, content: Content, measured: MeasuredBy | None = None
) -> bytes:
    """`measured`: the same rows have other event times by another rule, and these stand in the
    fragment. None: it has no event times."""
    if measured is None:
        return digest("fragment/1", schema=encoded(schema), content=tuple(content))
    return digest(
        "fragment/2", schema=encoded(schema), content=tuple(content), measured=tuple(measured)
    )


def union_id(schema: Schema, content: Content, parts: Iterable[bytes]) -> bytes:
    """The rows of several fragments as one, each with event times of its own. `parts`: their
    ids."""
    return digest("fragment/3", schema=encoded(schema), content=tuple(content), parts=list(parts))


def pack_id(schema: Schema, content: Content) -> bytes:
    """The rows of several fragments of one schema as one: never the id of a fragment that anything
    is made of."""
    return digest("pack/1", schema=encoded(schema), content=tuple(content))


def slot_id(content: Content, read_schema: Schema | Encoded) -> bytes:
    """What a task reads through one input: the rows' content under the read schema."""
    return digest("slot/1", content=tuple(content), schema=encoded(read_schema))


def task_key(logic: bytes, slots: Mapping[str, bytes], salt: bytes | None = None) -> bytes:
    return digest("task/1", logic=logic, slots=slots, salt=salt)


def label_of(task: bytes) -> str:
    """The text that names a task's fragment in the paths of its attempt: 32 hexadecimal digits."""
    return task.hex()[:32]

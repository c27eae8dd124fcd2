"""Late rows, said a second time: of one slice as a task is told, and of a whole log."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from dataplane.contract.claims import EarlierMessages
from dataplane.contract.jobs import LateRule
from tests.property.model import Columns, Row

BASE_S = 1_767_225_600  # 2026-01-01 in UTC, where minutes count from
MINUTE_US = 60_000_000


def late_in_slice(
    columns: Columns, rows: Sequence[Row], rule: LateRule, earlier: EarlierMessages
) -> list[Row]:
    """What a driver finds: rows of a slice in the order of offsets, and what came before it."""
    newest = {int(p): at_us for p, at_us in earlier["newest_us"].items()}
    counted_us = earlier["listed_ms"] * 1_000 + rule["max_ahead_s"] * 1_000_000
    late: list[Row] = []
    for row in rows:
        cells = dict(zip(columns, row, strict=True))
        minute, partition = cells[rule["column"]], cells["_partition"]
        if not isinstance(minute, int) or not isinstance(partition, int):
            continue
        at_us = BASE_S * 1_000_000 + minute * MINUTE_US
        if partition in newest and at_us < newest[partition] - rule["delay_us"]:
            late.append(row)
        if at_us <= counted_us:
            newest[partition] = max(at_us, newest.get(partition, at_us))
    return late


def sorted_out(
    log: Mapping[int, Sequence[tuple[int | None, int]]], delay: int, max_ahead: int
) -> tuple[Counter[Row], Counter[Row]]:
    """The rows on time and the late ones of a log, in one pass: (time, partition, offset). `log`:
    the times of messages and of their listings, in minutes."""
    rows: tuple[Counter[Row], Counter[Row]] = Counter(), Counter()
    for partition, messages in log.items():
        for offset, (t, is_late) in enumerate(_judged(messages, delay, max_ahead)):
            rows[is_late][(t, partition, offset)] += 1
    return rows


def _judged(
    messages: Sequence[tuple[int | None, int]], delay: int, max_ahead: int
) -> Iterator[tuple[int | None, bool]]:
    newest: int | None = None
    for t, listed in messages:
        if t is None:
            yield t, False
            continue
        yield t, newest is not None and t < newest - delay
        if t <= listed + max_ahead:
            newest = t if newest is None else max(newest, t)

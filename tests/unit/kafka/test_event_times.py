"""Event times of a file, against a loop over its rows; and watermarks of them in any order."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest

from controlplane.core.model.event_times import EventTime, EventTimes, SliceTimes
from dataplane.contract.jobs import EventTimeRule
from dataplane.contract.results import FileEntry, MeasuredTimes
from dataplane.contract.schemas import field_of, struct_of
from dataplane.fragments.event_times import event_times
from dataplane.storage.lake import open_lake

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
NOW_MS = int(NOW.timestamp() * 1_000)
HOUR = timedelta(hours=1)
RULE: EventTimeRule = {"column": "at", "max_ahead_s": 3_600.0}
TYPES = ["timestamp", "timestamp_ntz"]
Row = tuple[int, datetime | None, datetime]  # partition, event time, time of the message


def microseconds(moment: datetime) -> int:
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


def measured(
    folder: Path, rows: list[Row], listed_ms: int, kind: str, offsets: Sequence[int] = ()
) -> MeasuredTimes | None:
    zone = "UTC" if kind == "timestamp" else None
    times = [at and (at if zone else at.replace(tzinfo=None)) for _, at, _ in rows]
    table = pa.table(
        {
            "_partition": pa.array([p for p, _, _ in rows], pa.int32()),
            "_offset": pa.array(offsets or range(len(rows)), pa.int64()),
            "at": pa.array(times, pa.timestamp("us", zone)),
            "_timestamp": pa.array([appended for *_, appended in rows], pa.timestamp("us", "UTC")),
        }
    )
    return _measured_in(folder, table, listed_ms, kind)


def _measured_in(folder: Path, table: pa.Table, listed_ms: int, kind: str) -> MeasuredTimes | None:
    path = folder / "file.parquet"
    pa.parquet.write_table(table, path, row_group_size=100)
    file: FileEntry = {
        "path": path.name,
        "size": path.stat().st_size,
        "rows": table.num_rows,
        "stats": {},
    }
    schema = struct_of([field_of("_partition", "integer"), field_of("at", kind)])
    return event_times(open_lake(str(folder)), file, schema, RULE, listed_ms)


@pytest.mark.parametrize("listed_ms", [NOW_MS, 0])
@pytest.mark.parametrize("kind", TYPES)
def test_newest_times_of_a_file(tmp_path: Path, kind: str, listed_ms: int) -> None:
    chance = random.Random(7)
    rows: list[Row] = []
    for _ in range(1_000):
        appended = NOW - timedelta(seconds=chance.randrange(5_000))
        at = appended + timedelta(seconds=chance.randrange(-5_000, 9_000), microseconds=1)
        rows.append((chance.randrange(4), chance.choice([at, at, None]), appended))
    rows += [(9, None, NOW)]
    newest: dict[str, int] = {}
    least: dict[str, int] = {}
    behind: dict[str, int] = {}
    ahead = 0
    for partition, moment, appended in rows:
        limit = (NOW if listed_ms else appended) + HOUR
        if moment is None:
            continue
        name, at_us = str(partition), microseconds(moment)
        least[name] = min(least.get(name, at_us), at_us)
        behind[name] = max(behind.get(name, 0), newest.get(name, at_us) - at_us)
        if moment > limit:
            ahead += 1
            continue
        newest[name] = max(newest.get(name, 0), at_us)
    assert ahead
    assert measured(tmp_path, rows, listed_ms, kind) == {
        "column": "at",
        "max_ahead_s": 3_600.0,
        "listed_ms": listed_ms,
        "newest_us": newest,
        "least_us": least,
        "behind_us": behind,
        "ahead": ahead,
    }


def test_rows_in_another_order_are_behind_by_an_unknown_time(tmp_path: Path) -> None:
    rows: list[Row] = [(partition, NOW, NOW) for partition in (0, 1, 0, 1)]
    times = measured(tmp_path, rows, NOW_MS, "timestamp", offsets=[7, 3, 6, 4])
    assert times is not None
    assert times["behind_us"] == {"1": 0}


@pytest.mark.parametrize("first", [microseconds(NOW), None])
def test_times_of_all_64_bits(tmp_path: Path, first: int | None) -> None:
    """Avro values may have them: their distance needs 65 bits."""
    extreme = -(2**63)
    times = _of_integers(tmp_path, [first, extreme, extreme + 5, extreme])
    newest = extreme + 5 if first is None else first
    assert times["least_us"] == {"0": extreme}
    assert times["behind_us"] == {"0": newest - extreme}
    assert SliceTimes.of([times]).may_be_late({}, 4)


def _of_integers(folder: Path, times: Sequence[int | None]) -> MeasuredTimes:
    rows = len(times)
    table = pa.table(
        {
            "_partition": pa.array([0] * rows, pa.int32()),
            "_offset": pa.array(range(rows), pa.int64()),
            "at": pa.array(times, pa.int64()).cast(pa.timestamp("us", "UTC")),
            "_timestamp": pa.array([NOW] * rows, pa.timestamp("us", "UTC")),
        }
    )
    result = _measured_in(folder, table, NOW_MS, "timestamp")
    assert result is not None
    return result


def test_whether_a_row_of_a_slice_may_be_late() -> None:
    """Exact where each partition is in one file, and no late row is missed where it is in two."""
    chance = random.Random(5)
    outcomes = Counter[tuple[bool, bool, bool]]()
    for _ in range(5_000):
        times = [(chance.randrange(2), chance.randrange(100)) for _ in range(chance.randrange(8))]
        before = {p: chance.randrange(100) for p in chance.sample(range(2), chance.randrange(3))}
        cut = chance.choice([0, chance.randint(0, len(times))])
        delay = chance.choice([0, 20, 60])
        newest, is_late = dict(before), False
        for partition, at in times:
            is_late = is_late or at < newest.get(partition, at) - delay
            newest[partition] = max(newest.get(partition, at), at)
        files = [_of_file(times[:cut]), _of_file(times[cut:])]
        may_be = SliceTimes.of(files).may_be_late({str(p): at for p, at in before.items()}, delay)
        outcomes[(cut > 0, is_late, may_be)] += 1
    assert not [outcome for outcome in outcomes if outcome[1] and not outcome[2]]
    assert (False, False, True) not in outcomes
    assert len(outcomes) == 5


def _of_file(times: list[tuple[int, int]]) -> MeasuredTimes:
    newest: dict[str, int] = {}
    least: dict[str, int] = {}
    behind: dict[str, int] = {}
    for partition, at in times:
        name = str(partition)
        behind[name] = max(behind.get(name, 0), newest.get(name, at) - at)
        newest[name] = max(newest.get(name, at), at)
        least[name] = min(least.get(name, at), at)
    return {
        "column": "at",
        "max_ahead_s": 3_600.0,
        "listed_ms": 1,
        "newest_us": newest,
        "least_us": least,
        "behind_us": behind,
        "ahead": 0,
    }


def test_a_column_that_is_no_time_has_none(tmp_path: Path) -> None:
    path = tmp_path / "file.parquet"
    pa.parquet.write_table(pa.table({"at": ["x"]}), path)
    file: FileEntry = {"path": path.name, "size": path.stat().st_size, "rows": 1, "stats": {}}
    schema = struct_of([field_of("at", "string")])
    assert event_times(open_lake(str(tmp_path)), file, schema, RULE, 0) is None


def test_watermarks_follow_slices_in_any_order() -> None:
    chance = random.Random(3)
    slices: list[MeasuredTimes] = [
        {
            "column": "at",
            "max_ahead_s": 3_600.0,
            "listed_ms": 60_000 * number,
            "newest_us": {str(p): chance.randrange(10**9) for p in chance.sample(range(5), 2)},
            "least_us": {},
            "behind_us": {},
            "ahead": number % 2,
        }
        for number in range(20)
    ]
    rule = EventTime("at", 5.0, 240.0, 3_600.0)
    in_order = EventTimes("at").plus(slices)
    for _ in range(20):
        chance.shuffle(slices)
        cut = chance.randrange(20)
        times = EventTimes("at").plus(slices[:cut]).plus(slices[cut:])
        assert times == in_order
        assert times.watermark(rule) == in_order.watermark(rule)
    watermark = in_order.watermark(rule)
    assert watermark is not None
    active = [t for t in in_order.newest if 19 * 60_000 - t.listed_ms <= 240_000]
    assert watermark.at_us == min(t.newest_us for t in active) - 5_000_000
    assert len(watermark.idle) == len(in_order.newest) - len(active)


def test_times_of_another_column_say_nothing() -> None:
    times: MeasuredTimes = {**_of_file([(0, 5)]), "ahead": 1}
    assert EventTimes("seen").plus([times]) == EventTimes("seen")
    assert EventTimes("seen").watermark(EventTime("seen", 0.0, None, 0.0)) is None

"""A topic in memory, and an engine that lists and parses it: slices are cut by chance.

What a watermark is, and which windows it closes, is said here a second time, over whole logs.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias, cast

from controlplane.core.model.states import State
from controlplane.operations.desired import blueprints
from dataplane.connectors.kafka.kafka_listing import ends_of, listed_at, object_of
from dataplane.connectors.kafka.kafka_server import OffsetBounds, Topic
from dataplane.contract.claims import Claim, ListClaim, ParseClaim, TaskSpec
from dataplane.contract.results import MeasuredTimes, TaskResult
from dataplane.contract.schemas import column_names
from dataplane.contract.source_objects import ListedPartition, listed_at_ms
from dataplane.listing.listed_partitions import listed
from dataplane.listing.result_file import written_listing
from tests.property.engine import Engine, Work
from tests.property.late_model import BASE_S, MINUTE_US
from tests.property.model import Columns, Fragment, Row, Value
from tests.property.world import BRANCH, World

HOUR = 60
LATEST_MINUTE = 400 * 24 * HOUR
Log: TypeAlias = Mapping[int, Sequence[int | None]]  # times in minutes, by partition


def closed_rows(log: Log, watermark: float | None) -> Counter[Row]:
    """The rows of hours that end at a watermark or before it, in minutes."""
    rows: Counter[Row] = Counter()
    for partition, times in log.items():
        for offset, t in enumerate(times):
            if t is not None and watermark is not None and (t // HOUR + 1) * HOUR <= watermark:
                rows[(t, partition, offset)] += 1
    return rows


@dataclass(slots=True)
class StreamEngine(Engine):
    """`log` is the topic. `now`: the minute in which listings are made."""

    log: dict[int, list[int | None]] = field(default_factory=dict)
    chance: random.Random = field(default_factory=random.Random)
    now: int = 0
    is_whole: bool = False  # the next listing finds all there is
    is_unordered: bool = False  # files do not have rows in the order of offsets
    is_earlier_version: bool = False  # that measured the newest times alone
    slices: list[list[OffsetBounds]] = field(default_factory=list)
    listed: list[int] = field(default_factory=list)  # the minute of each slice

    def _work(self, claim: Claim, task: TaskSpec) -> Work | None:
        if claim["kind"] != "parse":
            return super(StreamEngine, self)._work(claim, task)
        return Work(claim["dataset"], task["partition"], ("slice", task["partition"]))

    def _result(self, claim: Claim, task: TaskSpec) -> TaskResult:
        result: TaskResult = {"task": task["task"], "epoch": task["epoch"], "state": "done"}
        match claim["kind"]:
            case "list":
                found = list(self._new_slices(claim))
                result["result"] = written_listing(iter(found), claim["job"], Path)
            case "parse":
                self._parse(claim, task, result)
            case _:
                return super(StreamEngine, self)._result(claim, task)
        return result

    def _new_slices(self, claim: ListClaim) -> Iterator[ListedPartition]:
        known = claim["job"]["known"]
        assert known is not None
        bounds = tuple(OffsetBounds(p, 0, len(times)) for p, times in sorted(self.log.items()))
        topic = Topic("orders", "one", bounds)
        ends = dict(ends_of(known["objects"], topic, accept=False))
        number = int(known["key"]) + 1 if known["key"] else 1
        while any(ends.get(b.partition, 0) < b.end for b in bounds):
            ranges = [self._range(ends.get(b.partition, 0), b) for b in bounds]
            if any(of.first < of.end for of in ranges):
                objects = [listed_at(self._now_ms, object_of(topic, of)) for of in ranges]
                self.slices.append(ranges)
                self.listed.append(self.now)
                yield listed(f"{number:012}", objects, ())
                number += 1
                ends = {of.partition: of.end for of in ranges}
            if not self.is_whole and self.chance.random() < 0.3:
                return

    def _range(self, first: int, held: OffsetBounds) -> OffsetBounds:
        return OffsetBounds(held.partition, first, self.chance.randint(first, held.end))

    @property
    def _now_ms(self) -> int:
        return (BASE_S + 60 * self.now) * 1_000

    def _parse(self, claim: ParseClaim, task: TaskSpec, result: TaskResult) -> None:
        columns = task["columns"]  # type: ignore[typeddict-item]
        names = column_names(columns)
        rows = tuple(self._rows(task, names))
        self._store(claim, task, Fragment(names, rows), result)
        result["schema"] = columns
        rule = claim["job"].get("event_time")
        if rule is not None:
            limit = self.now_of(task) + rule["max_ahead_s"] / 60
            times = self._times(rows, names, limit, listed_at_ms(task["objects"]))  # type: ignore[typeddict-item]
            times["max_ahead_s"] = rule["max_ahead_s"]
            if self.is_earlier_version:
                times = _as_earlier(times)
            result["files"] = [{**file, "times": times} for file in result["files"]]

    def now_of(self, task: TaskSpec) -> float:
        return listed_at_ms(task["objects"]) / 60_000 - BASE_S / 60  # type: ignore[typeddict-item]

    def _rows(self, task: TaskSpec, names: Sequence[str]) -> Iterator[Row]:
        for source in task["objects"]:  # type: ignore[typeddict-item]
            detail = source["detail"]
            for offset in range(detail["first"], detail["end"]):
                t = self.log[detail["partition"]][offset]
                cells: dict[str, Value] = {"t": t, "_partition": detail["partition"]}
                cells["_offset"] = offset
                yield tuple(cells.get(name) for name in names)

    def _times(
        self, rows: Sequence[Row], names: Sequence[str], limit: float, listed_ms: int
    ) -> MeasuredTimes:
        newest: dict[str, int] = {}
        least: dict[str, int] = {}
        behind: dict[str, int] = {}
        ahead = 0
        for row in rows:
            t, partition = row[names.index("t")], str(row[names.index("_partition")])
            if not isinstance(t, int):
                continue
            at_us = BASE_S * 1_000_000 + t * MINUTE_US
            least[partition] = min(least.get(partition, at_us), at_us)
            own = newest.get(partition, at_us) - at_us
            behind[partition] = max(behind.get(partition, 0), own)
            if t > limit:
                ahead += 1
            else:
                newest[partition] = max(newest.get(partition, at_us), at_us)
        return {
            "column": "t",
            "max_ahead_s": 0.0,
            "listed_ms": listed_ms,
            "newest_us": newest,
            "least_us": least,
            "behind_us": {} if self.is_unordered else behind,
            "ahead": ahead,
        }


def _as_earlier(times: MeasuredTimes) -> MeasuredTimes:
    fields = {name: times[name] for name in ("column", "listed_ms", "newest_us", "ahead")}
    return cast("MeasuredTimes", fields)


class StreamWorld(World):
    """A topic `orders`, `hours` over it with `emit: final`, and `after`, which reads it."""

    engine: StreamEngine

    def _engine(self) -> StreamEngine:
        return StreamEngine(
            self.ctx, self.lake, self.canonical, lambda _: None, salt=self._salt, plain=self.plain
        )

    def _check_cut(self, state: State) -> None:
        """Tests compare the rows at rest with the log."""

    def write(self, event_time: str, emit: str = "final", late: str = "correct") -> None:
        text = BLUEPRINT % (event_time, late, emit)
        for sql in QUERIES:
            self.canonical[sql] = sql
        blueprints.apply(self.ctx, BRANCH, [blueprints.SentBlueprint("/a.yaml", text, {})])

    def state(self, name: str) -> State:
        with self.store.read() as tx:
            return tx.states.newest(BRANCH)[f"a.{name}"]

    def rows(self, name: str, columns: Columns = ("t", "p", "o")) -> Counter[Row]:
        with self.store.read() as tx:
            state = tx.states.newest(BRANCH)[f"a.{name}"]
            fragments = [fragment for _, fragment in self._partitions(tx, state)]
        return Counter(row for f in fragments for row in f.under(columns))


def expected_watermark(engine: StreamEngine, idle: int | None, delay: int) -> int | None:
    """The watermark in minutes, from each message that was listed."""
    newest: dict[int, int] = {}
    seen: dict[int, int] = {}
    for ranges, minute in zip(engine.slices, engine.listed, strict=True):
        for of in ranges:
            times = [t for t in engine.log[of.partition][of.first : of.end] if t is not None]
            counted = [t for t in times if t <= minute + HOUR]
            if counted:
                newest[of.partition] = max(newest.get(of.partition, counted[0]), *counted)
                seen[of.partition] = minute
    last = max(seen.values(), default=0)
    active = [newest[p] for p, at in seen.items() if idle is None or last - at <= idle]
    return min(active) - delay if active else None


def rows_ahead(engine: StreamEngine) -> int:
    """How many of the listed messages are of more than an hour after their listing."""
    return sum(
        t is not None and t > minute + HOUR
        for ranges, minute in zip(engine.slices, engine.listed, strict=True)
        for of in ranges
        for t in engine.log[of.partition][of.first : of.end]
    )


QUERIES = (
    "SELECT t, _partition AS p, _offset AS o FROM orders",
    "SELECT t, p, o FROM hours",
    "SELECT * FROM orders_messages",
)
BLUEPRINT = f"""\
dataflow: a
components:
  orders:
    read:
      connector: kafka
      servers: broker:9092
      topic: orders
      schema: t TIMESTAMP_NTZ
      refresh: manual
      on_bad_record: drop
      event_time: {{%s}}
      late: %s
  hours:
    transform:
      sql: {QUERIES[0]}
      inputs: {{orders: by}}
      partition_by: [{{t: hour}}]
      emit: %s
  after: {{transform: {{sql: "{QUERIES[1]}", inputs: {{hours: each}}}}}}
"""

"""`cdc:` on Spark: what its queries give equals what a database would have done, event by event.

Keys are independent but for truncates and snapshots. So each key of one table is a random history
of its own, and thousands of them are one query.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import pyarrow as pa
import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import Row, SparkSession

from controlplane.core.blueprint import SqlTransform, parse
from tests.spark.conftest import Lake, done, failed, query, schema_of
from tests.spark.test_by import held, index, part

DDL = "id BIGINT, shop STRING, op STRING, hour INT, lsn INT, name STRING, amount BIGINT, seen INT"
HISTORIES = 1000
LAST_PLACE = 40
Values: TypeAlias = tuple[str | None, int | None, int | None]  # name, amount, seen


class Event(NamedTuple):
    id: int | None
    shop: str | None
    op: str | None  # U, D, T
    hour: int | None
    lsn: int | None
    name: str | None
    amount: int | None
    seen: int | None

    @property
    def key(self) -> tuple[int | None, str | None]:
        return self.id, self.shop

    @property
    def place(self) -> tuple[int, int]:
        assert self.hour is not None
        assert self.lsn is not None
        return self.hour, self.lsn

    @property
    def values(self) -> Values:
        return self.name, self.amount, self.seen


Place: TypeAlias = tuple[int, int]
End: TypeAlias = Place | None


class Version(NamedTuple):
    values: Values
    since: Place
    until: End


# --- what a database would do ---------------------------------------------------------------------


def rank(event: Event) -> tuple[object, ...]:
    """A delete above an upsert, then the row, NULL below all."""
    if event.op == "D":
        return (True,)
    name, amount, seen = event.values
    numbers = ((n is not None, n or 0) for n in (amount, seen))
    return False, (name is not None, name or ""), *numbers


class Replay:
    """One key, event after event."""

    def __init__(self, partial: bool, tracks_seen: bool) -> None:
        self.partial, self.tracks_seen = partial, tracks_seen
        self.now: Version | None = None
        self.ended: list[Version] = []

    def upsert(self, place: Place, values: Values) -> None:
        before = self.now
        if self.partial and before is not None and values[2] is None:
            values = (*values[:2], before.values[2])
        tracked = slice(3 if self.tracks_seen else 2)
        if before is not None and before.values[tracked] == values[tracked]:
            self.now = Version(values, before.since, None)
            return
        self.delete(place)
        self.now = Version(values, place, None)

    def delete(self, place: Place) -> None:
        if self.now is not None:
            self.ended.append(self.now._replace(until=place))
        self.now = None

    @property
    def versions(self) -> list[Version]:
        both = [*self.ended, *([self.now] if self.now else [])]
        return [version for version in both if version.until != version.since]


def replayed(
    events: Iterable[Event], truncates: Sequence[Place], **options: bool
) -> dict[tuple[int | None, str | None], Replay]:
    best: dict[tuple[Any, Place], Event] = {}
    for event in events:
        at = event.key, event.place
        if event.op != "T" and (at not in best or rank(event) > rank(best[at])):
            best[at] = event
    by_key: dict[Any, list[tuple[Place, int, Event | None]]] = {}
    for (key, place), winner in best.items():
        by_key.setdefault(key, []).append((place, 0, winner))
    replays = {}
    for key, moments in by_key.items():
        replay = replays[key] = Replay(**options)
        timeline = [*moments, *((place, 1, None) for place in truncates)]
        for place, _, change in sorted(timeline, key=lambda moment: moment[:2]):
            if change is None or change.op == "D" or place in truncates:
                replay.delete(place)
            else:
                replay.upsert(place, change.values)
    return replays


def replayed_snapshots(events: Sequence[Event]) -> dict[tuple[int | None, str | None], Replay]:
    replays: dict[Any, Replay] = {}
    for place in sorted({event.place for event in events}):
        rows = {event.key: event.values for event in events if event.place == place}
        for key, replay in replays.items():
            if key not in rows:
                replay.delete(place)
        for key, values in rows.items():
            replay = replays.setdefault(key, Replay(partial=False, tracks_seen=True))
            replay.upsert(place, values)
    return replays


# --- random histories -----------------------------------------------------------------------------


def at(place: int) -> tuple[int, int]:
    return divmod(place, 7)


def histories(chance: random.Random, truncates: Sequence[int], *, ties: bool) -> list[Event]:
    """Out of order; some events are delivered twice."""
    events = [Event(None, None, "T", *at(place), None, None, None) for place in truncates]
    for number in range(HISTORIES):
        places = range(LAST_PLACE)
        n = chance.randrange(0, 9)
        chosen = chance.choices(places, k=n) if ties else chance.sample(places, n)
        events += (event(chance, number, place) for place in chosen)
    events += chance.sample(events, len(events) // 10)
    chance.shuffle(events)
    return events


def event(chance: random.Random, number: int, place: int) -> Event:
    op = chance.choice(["U", "U", "U", "D", None])
    name = chance.choice(["a", "b", None])
    amount, seen = (chance.choice([1, 2, None]) for _ in range(2))
    return Event(number // 2, "xy"[number % 2], op, *at(place), name, amount, seen)


def snapshots(chance: random.Random) -> list[Event]:
    return [
        event(chance, number, place)._replace(op="U")
        for place in chance.sample(range(LAST_PLACE), 6)
        for number in range(HISTORIES)
        if chance.random() < 0.7
    ]


# --- the queries ----------------------------------------------------------------------------------

CDC = {
    "from": "events",
    "keys": "[id, shop]",
    "sequence_by": "[hour, lsn]",
    "deletes": "op = 'D'",
    "truncates": "op = 'T'",
    "columns": "{except: [op, hour, lsn]}",
    "on_tie": "greatest",
}
SNAPSHOTS = {key: CDC[key] for key in ("from", "keys", "sequence_by", "columns")} | {
    "snapshots": "true"
}


def texts(cdc: Mapping[str, str]) -> dict[str, str]:
    """The queries of the components that a `cdc:` stands for, by name."""
    lines = "\n".join(f"      {key}: {value}" for key, value in cdc.items())
    blueprint = (
        f"dataflow: shop\ncomponents:\n"
        f"  events: {{read: {{connector: files, path: /e/*.parquet, format: parquet}}}}\n"
        f"  rows:\n    cdc:\n{lines}\n"
    )
    components = parse(blueprint, file="/shop.yaml").components
    return {c.name: c.body.sql for c in components if isinstance(c.body, SqlTransform)}


def results(spark: SparkSession, cdc: Mapping[str, str], events: Sequence[Event]) -> list[Row]:
    spark.createDataFrame(list(events), DDL).createOrReplaceTempView("events")
    queries = texts(cdc)
    for name in queries.keys() - {"rows"}:
        spark.sql(queries[name]).createOrReplaceTempView(name.removeprefix("rows_"))
    return spark.sql(queries["rows"]).collect()


def newest_rows(rows: Iterable[Row]) -> list[tuple[Any, Values]]:
    return sorted((((r.id, r.shop), (r.name, r.amount, r.seen)) for r in rows), key=repr)


def version_rows(rows: Iterable[Row]) -> list[tuple[Any, Version]]:
    return sorted(
        (
            (
                (r.id, r.shop),
                Version(
                    (r.name, r.amount, r.seen),
                    tuple(r._valid_from),
                    None if r._valid_to is None else tuple(r._valid_to),
                ),
            )
            for r in rows
        ),
        key=repr,
    )


def expected_newest(replays: Mapping[Any, Replay]) -> list[tuple[Any, Values]]:
    return sorted(((key, r.now.values) for key, r in replays.items() if r.now), key=repr)


def expected_versions(replays: Mapping[Any, Replay]) -> list[tuple[Any, Version]]:
    return sorted(((key, v) for key, r in replays.items() for v in r.versions), key=repr)


def test_results_are_those_of_a_replay(spark: SparkSession) -> None:
    chance, truncates = random.Random(3), [11, 11, 30]
    events = histories(chance, truncates, ties=True)
    places = [at(place) for place in truncates]
    newest = expected_newest(replayed(events, places, partial=False, tracks_seen=True))
    assert len(newest) > HISTORIES / 10
    assert newest_rows(results(spark, CDC, events)) == newest
    versions = {**CDC, "history": "versions"}
    replays = replayed(events, places, partial=False, tracks_seen=True)
    assert version_rows(results(spark, versions, events)) == expected_versions(replays)
    untracked = {**versions, "track": "{except: [seen]}"}
    replays = replayed(events, places, partial=False, tracks_seen=False)
    assert version_rows(results(spark, untracked, events)) == expected_versions(replays)
    replays = replayed(events, places, partial=True, tracks_seen=True)
    filled = {**CDC, "partial": "[seen]"}
    assert newest_rows(results(spark, filled, events)) == expected_newest(replays)


def test_a_log_without_ties_and_truncates(spark: SparkSession) -> None:
    events = histories(random.Random(4), [], ties=False)
    strict = {key: value for key, value in CDC.items() if key not in ("on_tie", "truncates")}
    replays = replayed(events, [], partial=False, tracks_seen=True)
    assert newest_rows(results(spark, strict, events)) == expected_newest(replays)
    versions = {**strict, "history": "versions"}
    assert version_rows(results(spark, versions, events)) == expected_versions(replays)


def test_a_snapshot_deletes_what_it_lacks(spark: SparkSession) -> None:
    events = snapshots(random.Random(3))
    replays = replayed_snapshots(events)
    assert newest_rows(results(spark, SNAPSHOTS, events)) == expected_newest(replays)
    versions = {**SNAPSHOTS, "history": "versions"}
    assert version_rows(results(spark, versions, events)) == expected_versions(replays)
    explained = spark.sql(f"EXPLAIN {texts(versions)['rows']}").first()
    assert explained is not None
    assert "Join" in explained[0]
    assert "NestedLoopJoin" not in explained[0]  # of a moment with many snapshots


# --- two times ------------------------------------------------------------------------------------

Timeline: TypeAlias = dict[int, tuple[int | None, Values]]  # by valid time: its end, the row


def timeline(events: Sequence[Event], known: Place) -> Timeline:
    """What is known of one key at a place of the log. `seen` is the valid time."""
    newest: dict[int, Event] = {}
    for event in sorted(events, key=lambda e: (e.place, rank(e))):
        if event.place <= known:
            assert event.seen is not None
            newest[event.seen] = event
    ends = dict(zip(sorted(newest), [*sorted(newest)[1:], None], strict=True))
    return {
        valid: (ends[valid], event.values) for valid, event in newest.items() if event.op != "D"
    }


def two_times(events: Sequence[Event]) -> list[tuple[Any, ...]]:
    """Each row of each timeline, for as long as it is known."""
    rows: list[tuple[Any, ...]] = []
    for key in {event.key for event in events}:
        own = [event for event in events if event.key == key]
        places = sorted({event.place for event in own})
        begun: dict[tuple[int, Any], Place] = {}
        for place in places:
            now = {(valid, row) for valid, row in timeline(own, place).items()}
            for valid, row in begun.keys() - now:
                rows.append((key, row[1][:2], valid, row[0], begun.pop((valid, row)), place))
            for valid, row in now - begun.keys():
                begun[valid, row] = place
        rows += [(key, row[1][:2], valid, row[0], begun[valid, row], None) for valid, row in begun]
    return rows


def test_versions_of_two_times_are_those_of_a_replay(spark: SparkSession) -> None:
    chance = random.Random(6)
    logged = histories(chance, [], ties=True)
    days = {event: chance.randrange(6) for event in logged}
    events = [event._replace(seen=days[event]) for event in logged]
    cdc = {name: key for name, key in CDC.items() if name != "truncates"}
    cdc |= {"history": "versions", "valid_from": "seen"}
    rows = [
        (
            (r.id, r.shop),
            (r.name, r.amount),
            r._valid_from,
            r._valid_to,
            tuple(r._known_from),
            r._known_to and tuple(r._known_to),
        )
        for r in results(spark, cdc, events)
    ]
    expected = two_times(events)
    assert any(row[3] is not None and row[5] is not None for row in expected)
    assert sorted(rows, key=repr) == sorted(expected, key=repr)


def test_no_event_without_a_valid_time_is_passed_over(spark: SparkSession) -> None:
    cdc = {**STRICT, "history": "versions", "valid_from": "seen"}
    del cdc["truncates"]
    for bad, code in (
        (Event(4, "x", "U", 9, 2, "a", 1, None), "cdc-null-key"),
        (Event(None, "x", "U", 9, 2, "a", 1, 1), "cdc-null-key"),
    ):
        with pytest.raises((PySparkException, Py4JJavaError), match=code):
            results(spark, cdc, [*GOOD, bad])


# --- tasks of buckets -----------------------------------------------------------------------------


def table(events: Sequence[Event]) -> pa.Table:
    kinds = {"BIGINT": pa.int64(), "INT": pa.int32(), "STRING": pa.string()}
    columns = [column.split() for column in DDL.split(", ")]
    arrays = {
        name: pa.array([e[at] for e in events], kinds[kind])
        for at, (name, kind) in enumerate(columns)
    }
    return pa.table(arrays)


class Buckets:
    """The tasks of a `cdc:` over partitions of events, as a driver gets them."""

    def __init__(self, lake: Lake, cdc: Mapping[str, str], parts: Sequence[Sequence[Event]]):
        tables = [table(events) for events in parts]
        key = [part("id", buckets=4, name="id")]
        keys = {k for result in index(lake, DDL, key, *tables) for k in held(result)}
        files = [file for each in tables for file in lake.table(each)]
        queries = texts(cdc)
        marks = lake.spark.createDataFrame([e for events in parts for e in events], DDL)
        marks.createOrReplaceTempView("events")
        places = lake.spark.sql(queries["rows_truncates"]).collect()
        kind = pa.struct([("hour", pa.int32()), ("lsn", pa.int32())])
        column = pa.array([row[0].asDict() for row in places], kind)
        inputs = {
            "events": {
                "view": "events",
                "mode": "by",
                "schema": schema_of(lake.spark, DDL),
                "key": key,
            },
            "truncates": {
                "view": "truncates",
                "mode": "all",
                "schema": schema_of(lake.spark, "_sequence STRUCT<hour: INT, lsn: INT>"),
            },
        }
        shared = {"truncates": lake.table(pa.table({"_sequence": column}))}
        job = query(queries["rows"], inputs=inputs, key=key, shared=shared, together=True)
        tasks = [{"partition": k, "slots": {"events": files}} for k in sorted(keys)]
        self.results = dict(zip(sorted(keys), lake.run("transform", job, tasks), strict=True))


def test_buckets_do_not_depend_on_the_order_of_files(lake: Lake) -> None:
    chance = random.Random(5)
    events = histories(chance, [11], ties=True)
    cut = chance.randrange(len(events))
    first, second = events[:cut], events[cut:]
    contents = []
    for parts in ([first, second], [events[::-1]]):
        buckets = Buckets(lake, {**CDC, "history": "versions"}, parts)
        contents.append({k: done(r)["content"] for k, r in buckets.results.items()})
        rows = sum(content[0] for content in contents[-1].values())
        replays = replayed(events, [at(11)], partial=False, tracks_seen=True)
        assert rows == len(expected_versions(replays))
    assert contents[0] == contents[1]
    assert {"id", *(f"id={bucket}" for bucket in range(4))} == contents[0].keys()


STRICT = {key: value for key, value in CDC.items() if key != "on_tie"}
GOOD = [Event(n, "x", "U", 9, 1, "a", n, n) for n in range(16)]
BAD = [
    (Event(None, "x", "U", 1, 1, "a", 1, 1), "cdc-null-key", "events has no id"),
    (Event(1, None, "D", 1, 1, None, None, None), "cdc-null-key", "no shop"),
    (Event(2, "x", "D", None, 1, None, None, None), "cdc-null-sequence", "no hour or no lsn"),
    (Event(4, "x", "U", 9, 1, "b", None, None), "cdc-ambiguous", '"id":4,"shop":"x"'),
    (Event(4, "x", "D", 9, 1, None, None, None), "cdc-ambiguous", '"id":4,"shop":"x"'),
]


@pytest.mark.parametrize("more", [{}, {"history": "versions"}, {"partial": "[seen]"}])
def test_no_bad_event_is_passed_over(spark: SparkSession, more: dict[str, str]) -> None:
    truncate = Event(None, None, "T", 1, None, None, None, None)
    no_place = truncate, "cdc-null-sequence", "no hour, lsn"
    for bad, code, words in [*BAD, no_place]:
        # A subquery's error comes as it is
        with pytest.raises((PySparkException, Py4JJavaError), match=f"{code}: .*{words}"):
            results(spark, {**STRICT, **more}, [*GOOD, bad])


@pytest.mark.parametrize("more", [{}, {"history": "versions"}, {"partial": "[v]"}])
@pytest.mark.parametrize("values", ["0D, -0D", "'a' COLLATE UTF8_LCASE, 'A' COLLATE UTF8_LCASE"])
def test_rows_that_differ_and_compare_as_equal(
    spark: SparkSession, values: str, more: dict[str, str]
) -> None:
    cdc = {"from": "events", "keys": "[id]", "sequence_by": "[lsn]", "columns": "[v]", **more}
    lasting = []
    for order in ("ASC", "DESC"):
        events = f"SELECT 1 AS id, 1 AS lsn, v FROM (SELECT posexplode(array({values})) AS (n, v))"
        spark.sql(f"{events} ORDER BY n {order}").createOrReplaceTempView("events")
        [row] = spark.sql(texts({**cdc, "on_tie": "greatest"})["rows"]).collect()
        lasting.append(str(row.v))
    assert lasting[0] == lasting[1]
    with pytest.raises(PySparkException, match="cdc-ambiguous"):
        spark.sql(texts(cdc)["rows"]).collect()


def test_bad_events_fail_their_buckets_alone(lake: Lake) -> None:
    buckets = Buckets(lake, STRICT, [GOOD, [bad for bad, _, _ in BAD]])
    errors = [failed(r) for r in buckets.results.values() if r["state"] == "failed"]
    assert {(e["kind"], e["condition"]) for e in errors} == {("user", code) for _, code, _ in BAD}
    assert all("cdc-" not in error["message"] for error in errors)
    assert "done" in {r["state"] for r in buckets.results.values()}


# --- the examples of docs/cdc.md ------------------------------------------------------------------

EXAMPLES = re.findall(
    r"^\| \(.*$", (Path(__file__).parents[2] / "docs" / "cdc.md").read_text(encoding="utf-8"), re.M
)
EXAMPLE_CDC = {
    "from": "events",
    "keys": "[id]",
    "sequence_by": "[lsn]",
    "deletes": "op = 'D'",
    "truncates": "op = 'T'",
    "columns": "[name]",
}
TUPLE = re.compile(r"\((\d+), ([UD]), (\d+)(?:, (\w+))?\)|(T) at (\d+)")
ROW = re.compile(r"\((\d+), (\w+)\)")


def example_events(cell: str) -> list[Event]:
    events = []
    for number, op, lsn, name, truncate, place in TUPLE.findall(cell):
        key = int(number) if number else None
        events.append(
            Event(key, None, op or truncate, None, int(lsn or place), name or None, None, None)
        )
    return events


def test_the_examples_of_the_page(spark: SparkSession) -> None:
    assert len(EXAMPLES) == 3
    for line in EXAMPLES:
        _, cell, rows, _ = line.split("|")
        events = example_events(cell)
        cdc = EXAMPLE_CDC
        if "cdc-ambiguous" in rows:
            with pytest.raises(PySparkException, match="cdc-ambiguous"):
                results(spark, cdc, events)
            cdc = {**EXAMPLE_CDC, "on_tie": "greatest"}
        expected = [(int(number), name) for number, name in ROW.findall(rows)]
        for order in (events, events[::-1]):
            assert [(row.id, row.name) for row in results(spark, cdc, order)] == expected


# --- columns --------------------------------------------------------------------------------------

SPAN = ("_valid_from", "_valid_to")


def test_columns_come_in_the_order_of_the_events_or_of_the_list(spark: SparkSession) -> None:
    events = [Event(1, "x", "U", 1, 1, "a", 2, 3)]
    versions = {"history": "versions"}
    orders = [
        ("{except: [op, hour, lsn, name]}", {}, ["id", "shop", "amount", "seen"]),
        ("[seen, SHOP, Name]", versions, ["id", "shop", "seen", "Name", *SPAN]),
        ("[]", {}, ["id", "shop"]),
    ]
    for columns, more, names in orders:
        [row] = results(spark, {**STRICT, "columns": columns, **more}, events)
        assert list(row.asDict()) == names
    [row] = results(spark, {**STRICT, "partial": "[name]", "columns": "[name, seen]"}, events)
    assert list(row.asDict()) == ["id", "shop", "seen", "name"]


def test_columns_without_an_order_are_refused(spark: SparkSession) -> None:
    spark.sql("SELECT 1 AS id, 1 AS lsn, map('a', 1) AS tags").createOrReplaceTempView("events")
    cdc = {"from": "events", "keys": "[id]", "sequence_by": "[lsn]"}
    with pytest.raises(PySparkException, match="DATATYPE_MISMATCH"):
        spark.sql(texts(cdc)["rows"])
    [row] = spark.sql(texts({**cdc, "columns": "{except: [tags]}"})["rows"]).collect()
    assert row.asDict() == {"id": 1, "lsn": 1}

"""Blueprints with event time and `emit: final`: what is refused, and which keys a watermark
closes."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta

import pytest

from controlplane.core import tree
from controlplane.core.blueprint.key_columns import GRANULES
from controlplane.core.compile.compiler import compile_revisions
from controlplane.core.compile.nodes import Desired
from controlplane.core.errors import Problem
from controlplane.core.model.event_times import EventTime
from controlplane.core.model.revisions import Revision
from controlplane.core.model.states import Consumed
from controlplane.core.plan.event_watermarks import closed
from dataplane.contract.identity import Content
from dataplane.contract.key_values import granule_text
from dataplane.contract.keys import encode_segment
from tests.trees import MemoryNodes

TEXT = """\
dataflow: shop
timezone: UTC
components:
  orders:
    read:
      connector: kafka
      servers: broker:9092
      topic: orders
      schema: "shop STRING, at TIMESTAMP, seen TIMESTAMP"
      event_time: {column: at, delay: 10m, idle: 1m}
  shops: {read: {connector: files, path: /s/*.csv, format: csv, schema: "shop STRING, at TIMESTAMP"}}
  per_minute:
    transform:
      sql: SELECT window(at, '1 minute').start AS minute, count(*) AS n FROM orders GROUP BY window(at, '1 minute')
      partition_by: [{minute: hour}]
      emit: final
"""
START = datetime(1970, 1, 1, tzinfo=UTC)
WRONG = [
    ("column: at, ", "column: then, ", "invalid-value", "'then' is no column of type TIMESTAMP"),
    ("column: at, ", "column: shop, ", "invalid-value", "'shop' is no column of type TIMESTAMP"),
    ("column: at, ", "", "missing-key", "column"),
    ("delay: 10m", "delay: soon", "invalid-duration", "soon"),
    ("column: at, ", "column: seen, ", "conflicting-keys", "follows seen"),
    ("FROM orders", "FROM shops", "conflicting-keys", "shops has no event time"),
    ("timezone: UTC", "timezone: Europe/Berlin", "not-supported", "Europe/Berlin"),
    ("[{minute: hour}]", "[minute]", "conflicting-keys", "no time that ends"),
    ("      partition_by: [{minute: hour}]\n", "", "conflicting-keys", "no time that ends"),
    ("'1 minute'", "'7 minutes'", "conflicting-keys", "read by the key"),
    ("emit: final", "emit: whole", "invalid-value", "whole"),
]


def _compiled(text: str) -> tuple[Desired | None, list[Problem]]:
    revision = Revision("main", "shop", 1, text, {}, "/work/shop.yaml", {}, "ann", "r", 0.0)
    compiled = compile_revisions([revision])
    problems = list(compiled.problems)
    return (None if problems else compiled.require()), problems


def compiled(text: str) -> Desired:
    desired, problems = _compiled(text)
    assert desired is not None, problems
    return desired


@pytest.mark.parametrize(("old", "new", "code", "words"), WRONG)
def test_what_means_nothing_is_refused(old: str, new: str, code: str, words: str) -> None:
    _, [problem] = _compiled(TEXT.replace(old, new))
    assert problem.code == code
    assert words in problem.message


def test_event_time_identifies_no_rows_and_emit_does() -> None:
    nodes = compiled(TEXT).nodes
    orders = nodes["shop.orders"]
    assert orders.is_source
    assert orders.read.event_time == EventTime("at", 600.0, 60.0, 3_600.0)
    longer = compiled(TEXT.replace("10m", "20m")).nodes
    changes = compiled(TEXT.replace("      emit: final\n", "")).nodes
    assert longer["shop.orders"].lineage == orders.lineage
    assert longer["shop.per_minute"].lineage == nodes["shop.per_minute"].lineage
    assert changes["shop.per_minute"].lineage != nodes["shop.per_minute"].lineage


def test_a_transform_over_a_transform_may_be_final() -> None:
    between = "  bought: {transform: {sql: SELECT at AS moment FROM orders}}\n  per_minute:"
    text = TEXT.replace("  per_minute:", between)
    text = text.replace("FROM orders GROUP BY window(at", "FROM bought GROUP BY window(moment")
    assert compiled(text.replace("SELECT window(at", "SELECT window(moment"))


@pytest.mark.parametrize("granule", GRANULES)
def test_closed_keys_are_those_that_end_before_the_watermark(granule: str) -> None:
    chance = random.Random(granule)
    ends: dict[str, datetime | None] = {"at": None, "at/shop=1": None, "at=x": None}
    for year in ("-0044", "+10000"):
        ends[f"at={encode_segment(granule_text(START, granule, UTC).replace('1970', year))}"] = None
    for _ in range(300):
        moment = START + timedelta(days=chance.randrange(20_000), seconds=chance.randrange(86_400))
        text = granule_text(moment, granule, UTC)
        end = moment
        while granule_text(end, granule, UTC) == text:
            end += _step(granule)
        end = _begin(end, granule)
        ends[f"at={encode_segment(text)}/shop={chance.randrange(3)}"] = end
    nodes = MemoryNodes()
    entries = [tree.Entry(key, bytes(32), Content(1, 0, 0)) for key in sorted(ends)]
    keys = Consumed("a.b", tree.build(nodes, entries), b"")
    moments = [end for end in ends.values() if end is not None]
    for watermark in [*chance.sample(moments, 5), chance.choice(moments) + timedelta(minutes=1)]:
        after = timedelta(seconds=chance.choice([0, 90, 90_000]))
        at_us = (watermark - START) // timedelta(microseconds=1)
        found = closed(nodes, keys, granule, at_us, int(after.total_seconds()))
        wanted = {key for key, end in ends.items() if end and end + after <= watermark}
        assert {entry.key for entry in tree.scan(nodes, found.root)} == wanted
    assert closed(nodes, keys, granule, None, 0).root == tree.EMPTY_ROOT


def _step(granule: str) -> timedelta:
    return timedelta(minutes=1) if granule in ("minute", "15 minutes", "hour") else timedelta(1)


def _begin(moment: datetime, granule: str) -> datetime:
    """The first moment of its minute or day, which is that of its granule."""
    moment = moment.replace(second=0)
    return moment if _step(granule).days == 0 else moment.replace(hour=0, minute=0)

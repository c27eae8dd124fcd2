"""Sources that are listed by a cron expression: when, and who says so."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

import pytest

from controlplane.cli import source_views
from controlplane.core.compile.nodes import Source
from controlplane.core.cron_times import next_after
from controlplane.operations.desired import branches, controls
from controlplane.operations.inspect import causes, overview
from controlplane.operations.planning.snapshot import desired
from controlplane.operations.work import listings
from tests.there import there
from tests.unit.reconciler.test_streams import Place

DAILY = """\
dataflow: stream
timezone: Europe/Berlin
components:
  messages: {read: {connector: kafka, servers: "h:1", topic: t, schema: n BIGINT, refresh: "cron: 0 6 * * *"}}
"""
SIX = "2026-06-10T06:00:00+02:00"


def at(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


@pytest.fixture
def place() -> Place:
    """At noon, listed and computed."""
    place = Place(now=at("2026-06-09T12:00:00+02:00"))
    place.apply(DAILY)
    place.lists("1")
    place.computes(schema={"type": "struct", "fields": []}, content=[0, 0, 0], files=[], metrics={})
    place.now = at("2026-06-09T13:00:00+02:00")
    place.loop.tick()
    return place


def test_a_source_is_listed_once_at_its_time(place: Place) -> None:
    place.now = at(SIX) - 1
    place.loop.tick()
    assert place.listing() is None
    place.now = at(SIX)
    place.loop.tick()
    place.finds(place.listing())
    place.now += 3600
    place.loop.tick()
    assert place.listing() is None, "until tomorrow"


def test_missed_times_are_one_listing(place: Place) -> None:
    place.now = at("2026-06-13T09:30:00+02:00")
    place.loop.tick()
    place.finds(place.listing())
    place.loop.tick()
    assert place.listing() is None
    place.now = at("2026-06-14T06:00:00+02:00")
    place.loop.tick()
    assert place.listing() is not None


def test_the_loop_sleeps_until_the_time_or_less(place: Place) -> None:
    with place.ctx.read() as tx:
        node = desired(tx, "main").nodes["stream.messages"]
        assert isinstance(node, Source)
        listing = there(tx.listings.get([node.listing]).get(node.listing))
    assert listings.due_in(node, listing, place.now) == at(SIX) - place.now
    assert listings.next_due_in(node, listing, place.now, [node.listing]) == at(SIX) - place.now
    ahead = replace(listing, at=place.now + 1e6)
    assert listings.due_in(node, ahead, place.now) == at(SIX) - place.now, "the clock went back"


def test_plan_status_and_why_say_when_the_next_look_is_due(place: Place) -> None:
    due = "2026-06-10T04:00:00.000+00:00"
    [flow] = overview.status(place.ctx, "main")["dataflows"]
    listing = flow["datasets"][0]["listing"]
    assert (listing["due"], listing.get("cron")) == (due, "0 6 * * *")
    assert listing["behind_s"] == 0.0
    [source] = overview.plan(place.ctx, "main")["sources"]
    assert source.get("due") == due
    assert "stream.messages: next look at 2026-06-10 04:00:00Z" in source_views.lines([source])
    [origin] = causes.why(place.ctx, "main", "stream.messages")["sources"]
    assert origin.get("due") == due


def test_a_paused_source_has_no_next_look(place: Place) -> None:
    controls.pause(place.ctx, "main", "stream")
    [source] = overview.plan(place.ctx, "main")["sources"]
    [origin] = causes.why(place.ctx, "main", "stream.messages")["sources"]
    assert "due" not in source
    assert "due" not in origin


def test_a_pinned_branch_has_no_next_look(place: Place) -> None:
    branches.create(place.ctx, "look", pinned=True)
    [origin] = causes.why(place.ctx, "look", "stream.messages")["sources"]
    assert "due" not in origin


@pytest.mark.parametrize(
    ("expression", "after", "following"),
    [
        ("30 2 * * *", "2026-03-28T12:00:00+01:00", "2026-03-29T03:00:00+02:00"),
        ("30 2 * * *", "2026-10-25T02:30:00+02:00", "2026-10-26T02:30:00+01:00"),
        ("30 2 * * *", "2026-10-25T02:00:00+01:00", "2026-10-26T02:30:00+01:00"),
        ("*/15 2 * * *", "2026-03-29T01:00:00+01:00", "2026-03-30T02:00:00+02:00"),
        ("*/15 2 * * *", "2026-10-25T02:45:00+02:00", "2026-10-25T02:00:00+01:00"),
        ("0 */2 * * *", "2026-03-29T00:00:00+01:00", "2026-03-29T04:00:00+02:00"),
        ("0 */2 * * *", "2026-10-25T02:00:00+02:00", "2026-10-25T02:00:00+01:00"),
        ("0 6 1 * *", "2026-06-09T12:00:00+02:00", "2026-07-01T06:00:00+02:00"),
        ("*/15 * * * *", "2026-06-09T12:00:00+02:00", "2026-06-09T12:15:00+02:00"),
    ],
    ids=[
        "left out",
        "twice",
        "between the two",
        "quarters left out",
        "quarters twice",
        "step left out",
        "step twice",
        "monthly",
        "quarters",
    ],
)
def test_times_are_of_the_dataflows_zone(expression: str, after: str, following: str) -> None:
    assert next_after(expression, at(after), "Europe/Berlin") == at(following)

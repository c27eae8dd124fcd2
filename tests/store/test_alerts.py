"""Alerts, and messages about them."""

from __future__ import annotations

from dataclasses import replace

from tests.store.conftest import World
from tests.store.examples import alert, d, error, message


def test_alerts_are_one_for_each_condition_of_a_dataset(world: World) -> None:
    blocked = replace(alert(), condition="blocked", ended=3.0)
    with world.begin() as tx:
        tx.alerts.put([alert("flights.b"), alert(), alert(branch="dev")])
        tx.alerts.put([blocked, alert(notified=("a", "b"))])
    with world.begin() as tx:
        assert tx.alerts.all("main") == (blocked, alert(notified=("a", "b")), alert("flights.b"))
        tx.alerts.drop([alert(), alert("flights.c")])
        assert tx.alerts.all("main") == (blocked, alert("flights.b"))
    with world.read() as tx:
        assert tx.alerts.all("dev") == (alert(branch="dev"),)


def test_messages_stay_until_they_are_dropped(world: World) -> None:
    tried = message("b", tries=2, task=d(1), error=error("refused"))
    with world.begin() as tx:
        tx.alerts.put_messages([message("b"), message("a"), message("c", "dev")])
        tx.alerts.put_messages([tried])
    with world.begin() as tx:
        assert tx.alerts.messages("main") == (message("a"), tried)
        tx.alerts.drop_messages(["a", "x"])
    with world.read() as tx:
        assert tx.alerts.messages("main") == (tried,)
        assert tx.alerts.messages("dev") == (message("c", "dev"),)

"""What users are told of events."""

from __future__ import annotations

from controlplane.core.model.events import NO_BRANCH, Event
from controlplane.operations.context import Context
from controlplane.operations.inspect import overview
from tests.stores import new_store


def test_an_event_keeps_its_kind_whatever_its_body_holds() -> None:
    """Older releases told of the end of a driver in this way."""
    ctx = Context(new_store())
    with ctx.store.begin() as tx:
        tx.events.put(
            [Event("driver.ended", body={"driver": "d", "kind": "worker"}, branch=NO_BRANCH)]
        )
    (told,) = overview.events(ctx, "main", 0)
    assert (told["kind"], told["driver"], told["driver_kind"]) == ("driver.ended", "d", "worker")  # type: ignore[typeddict-item]  # each kind has fields of its own

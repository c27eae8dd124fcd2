"""From a dataset that fails to an acknowledged message, with a worker that sends over real HTTP."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from controlplane.core.alerts import AWAY_S, DELAYS_S, GATHER_S
from controlplane.core.model.alerts import Message
from controlplane.operations.alerts.watch import Watch
from controlplane.operations.planning.planner import Planner
from controlplane.operations.work import claims, reports
from dataplane.contract.claims import CONTRACT, Claim
from dataplane.listing.version_cache import Versions
from dataplane.runtime.heartbeats import Orders
from dataplane.runtime.worker import perform
from tests.unit.expectations.world import BRANCH, World

EXPECT = """\
    expect: [{{name: small, check: v < 100, on_fail: fail}}]
notify:
  - {{to: webhook, url: "{url}"}}
"""


@dataclass
class Receiver:
    """A web service that keeps what it is sent."""

    status: int = 204
    got: list[tuple[Mapping[str, str], Any]] = field(default_factory=list)
    url: str = ""


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    found = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            found.got.append((dict(self.headers), json.loads(body)))
            self.send_response(found.status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Nothing."""

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        found.url = f"http://127.0.0.1:{server.server_port}/hook"
        thread = Thread(target=server.serve_forever, args=[0.01])
        thread.start()
        yield found
        server.shutdown()
        thread.join()


@dataclass
class Place:
    """A world whose alerts are watched."""

    world: World
    watch: Watch

    def look(self) -> bool:
        return self.watch.step()

    def later(self, seconds: float) -> bool:
        self.world.now += seconds
        return self.look()

    def claim(self) -> Claim | None:
        return claims.claim(
            self.world.ctx, "worker", CONTRACT, ["notify"], lake=self.world.lake.uri
        )

    def send(self, claim: Claim) -> None:
        results = perform(claim, Versions(None), Orders())
        reports.report(self.world.ctx, "worker", claim["attempt"], results, lake=self.world.lake)

    def work(self) -> int:
        """Everything that is queued; how many messages that were."""
        count = 0
        while claim := self.claim():
            self.send(claim)
            count += 1
        return count

    def messages(self) -> tuple[Message, ...]:
        with self.world.store.read() as tx:
            return tx.alerts.messages(BRANCH)

    def restart(self) -> None:
        self.watch = Watch(self.world.ctx, BRANCH, Planner(self.world.store, branch=BRANCH), ())


@pytest.fixture
def place(request: pytest.FixtureRequest, tmp_path: Path, receiver: Receiver) -> Place:
    """An expectation fails."""
    world = World(tmp_path)
    world.put("a.csv", (1, 200))
    world.apply(EXPECT.format(url=receiver.url))
    world.settle()
    return Place(world, Watch(world.ctx, BRANCH, Planner(world.store, branch=BRANCH), ()))


def occasions(receiver: Receiver) -> list[list[tuple[str, str]]]:
    return [
        [(item["dataset"], item["occasion"]) for item in body["items"]] for _, body in receiver.got
    ]


def test_a_failure_is_told_and_then_that_it_is_over(place: Place, receiver: Receiver) -> None:
    place.look()
    assert place.work() == 0, "news are gathered first"
    place.later(GATHER_S)
    assert place.watch.is_under_way
    assert place.work() == 1
    place.look()
    assert (place.messages(), place.watch.is_under_way) == ((), False)
    place.world.put("a.csv", (1, 20))
    place.world.settle()
    for wait in (1.0, AWAY_S, GATHER_S):
        place.later(wait)
    place.work()
    assert occasions(receiver) == [[("shop.orders", "failed")], [("shop.orders", "recovered")]]
    assert "an expectation fails" in receiver.got[0][1]["items"][0]["text"]


def test_a_message_that_is_refused_is_kept_and_sent_again(place: Place, receiver: Receiver) -> None:
    receiver.status = 503
    place.look()
    place.later(GATHER_S)
    place.work()
    place.look()
    (message,) = place.messages()
    assert message.tries == 1
    assert message.error is not None
    assert "503" in message.error["message"]
    assert not place.watch.is_under_way, "a run does not wait for it"
    place.restart()
    receiver.status = 204
    assert place.work() == 0
    place.later(DELAYS_S[0])
    assert place.work() == 1
    place.look()
    assert place.messages() == ()
    assert receiver.got[0][1]["id"] == receiver.got[1][1]["id"]


def test_what_was_sent_but_not_acknowledged_is_sent_again(place: Place, receiver: Receiver) -> None:
    """The worker dies between the two."""
    place.look()
    place.later(GATHER_S)
    claim = place.claim()
    assert claim is not None
    perform(claim, Versions(None), Orders())
    with place.world.store.begin() as tx:
        tx.queue.release(
            [bytes.fromhex(t["task"]) for t in claim["tasks"]],
            attempt=claim["attempt"],
            not_before=0.0,
            error=None,
            burn=False,
        )
        tx.queue.end_attempt(claim["attempt"])
    place.restart()
    place.look()
    assert place.work() == 1
    place.look()
    assert place.messages() == ()
    assert [body["id"] for _, body in receiver.got] == [receiver.got[0][1]["id"]] * 2


def test_a_channel_that_is_taken_away_is_told_nothing_more(
    place: Place, receiver: Receiver
) -> None:
    place.look()
    place.world.apply("    expect: [{name: small, check: v < 100, on_fail: fail}]\n")
    place.later(GATHER_S)
    assert place.work() == 0
    assert place.messages() == ()
    assert receiver.got == []


def test_the_installation_is_told_of_every_dataflow(place: Place, receiver: Receiver) -> None:
    with place.world.ctx.read_plan(BRANCH) as (_, facts):
        (channel,) = facts.desired.texts["shop"].blueprint.notify
    other = replace(channel, on=("failed",))
    place.watch = Watch(
        place.world.ctx, BRANCH, Planner(place.world.store, branch=BRANCH), (other,)
    )
    place.look()
    place.later(GATHER_S)
    assert place.work() == 2
    assert occasions(receiver) == [[("shop.orders", "failed")]] * 2

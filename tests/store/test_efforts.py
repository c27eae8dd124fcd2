"""Work by dataset and day: each figure is a recount of attempts, events and states."""

from __future__ import annotations

from dataclasses import replace

from controlplane.core.model.efforts import DAY_S, Effort
from controlplane.core.model.events import ADOPTED, Event
from controlplane.core.model.past_attempts import PastAttempt
from tests.store.conftest import World
from tests.store.examples import past, state

DAY = 20_000
NOON = (DAY + 0.5) * DAY_S
ATTEMPTS = (
    past("a", ended_at=NOON),
    past("b", ended_at=NOON + 5, seconds=None, bytes_read=None, outcome="failed", done=0),
    past("c", ended_at=DAY * DAY_S + DAY_S - 0.01),
    past("d", ended_at=(DAY + 1) * DAY_S, dataset="flights.weekly", kind="list"),
    past("e", ended_at=NOON, branch="dev"),
    past("f", ended_at=NOON - DAY_S),
)


def recounted(attempts: list[PastAttempt]) -> tuple[int, ...]:
    return (
        len(attempts),
        sum(a.done for a in attempts),
        sum(a.bytes_read or 0 for a in attempts),
        sum(a.bytes_written for a in attempts),
    )


def test_figures_equal_a_recount_of_attempts(world: World) -> None:
    with world.begin() as tx:
        tx.past_attempts.put(ATTEMPTS)
    with world.read() as tx:
        before = world.store.statements
        efforts = tx.past_attempts.efforts("main", DAY * DAY_S, 10)
        assert world.store.statements - before == 1
        assert tx.past_attempts.efforts("main", DAY * DAY_S, 1) == efforts[:1]
    assert [(e.dataset, e.day) for e in efforts] == [
        ("flights.weekly", DAY + 1),
        ("flights.daily", DAY),
    ]
    for effort in efforts:
        own = [
            a
            for a in ATTEMPTS
            if (a.branch, a.dataset, a.ended_at // DAY_S) == ("main", effort.dataset, effort.day)
        ]
        figures = effort.attempts, effort.tasks, effort.bytes_read, effort.bytes_written
        assert figures == recounted(own)
        assert effort.seconds == sum(a.seconds or 0.0 for a in own)


def test_what_did_not_have_to_run_is_counted(world: World) -> None:
    commits = [state(dataset="a.b", seq=seq, at=NOON) for seq in (1, 2, 3)]
    generations = zip(commits, (1, 1, 2), strict=True)
    with world.begin() as tx:
        for one, generation in generations:
            tx.states.commit(replace(one, generation=generation), one.seq - 1)
        tx.events.put([Event(ADOPTED, "a.b", n, branch="main") for n in (3, 4)])
        tx.events.put([Event("dataset.committed", "a.b", 99, branch="main")])
    with world.read() as tx:
        efforts = tx.past_attempts.efforts("main", 0.0, 10)
    assert sum(e.reused for e in efforts) == 7
    assert [e for e in efforts if e.unchanged] == [Effort("a.b", DAY, 0, 0, 0.0, 0, 0, 0, 1)]

"""Tasks, demands, claims, fencing."""

from __future__ import annotations

import threading
from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial

import pytest

from controlplane.core.model.tasks import Attempt, Demand, RaisedSize, Size, Task
from controlplane.ports.queue import Candidates
from controlplane.ports.store import Tx
from controlplane.store.rules import LONGEST_DELAY_S
from dataplane.contract.kinds import STARTED_FOR, Kind, Placement, placements_for
from tests.store.conftest import World
from tests.store.examples import d, error, fragment, stored_job, task

DAILY = "flights.daily"


def claim(
    tx: Tx,
    attempt: str = "a1",
    kinds: Sequence[Kind] = ("transform",),
    n: int = 100,
) -> Attempt | None:
    return tx.queue.claim(attempt, "driver-1", kinds, max_tasks=n, lease_s=30)


def claimed(tx: Tx, attempt: str = "a1", n: int = 100) -> Attempt:
    made = claim(tx, attempt, n=n)
    assert made is not None
    return made


def states(tx: Tx, *numbers: int) -> list[str]:
    found = tx.queue.tasks([d(n) for n in numbers])
    return [found[d(n)].state if d(n) in found else "none" for n in numbers]


# --- demand


def test_tasks_are_queued_once(world: World) -> None:
    with world.begin() as tx:
        assert tx.queue.enqueue("main", DAILY, [task(1), task(2)]) == 2
        assert tx.queue.enqueue("main", DAILY, [task(2), task(3)]) == 1
        assert tx.queue.enqueue("dev", DAILY, [task(1)]) == 0
    with world.read() as tx:
        assert tx.queue.demands("main", DAILY) == {d(n): task(n) for n in (1, 2, 3)}
        assert tx.queue.demands("dev", DAILY) == {d(1): task(1)}
        assert tx.queue.demands("main", "flights.other") == {}
        assert tx.queue.demanding(d(1)) == (("dev", DAILY), ("main", DAILY))
        assert tx.queue.demanding(d(9)) == ()
        assert tx.queue.branches_of([d(1), d(2), d(9)]) == {d(1): ("dev", "main"), d(2): ("main",)}
        assert tx.queue.tasks([d(3), d(9)]) == {d(3): task(3)}


def test_two_datasets_of_a_branch_are_one_branch(world: World) -> None:
    with world.begin() as tx:
        tx.queue.enqueue("main", DAILY, [task(1)])
        tx.queue.enqueue("main", "flights.other", [task(1)])
        assert tx.queue.branches_of([d(1)]) == {d(1): ("main",)}


def test_the_highest_priority_counts(world: World) -> None:
    with world.begin() as tx:
        tx.queue.enqueue("main", DAILY, [task(1, priority=5), task(2, priority=5)])
        tx.queue.enqueue("main", "flights.other", [task(1, priority=3), task(2, priority=7)])
        assert {k: t.priority for k, t in tx.queue.tasks([d(1), d(2)]).items()} == {
            d(1): 5,
            d(2): 7,
        }


def test_the_largest_size_counts(world: World) -> None:
    with world.begin() as tx:
        tx.queue.enqueue(
            "main", DAILY, [task(1, size="small"), task(2, size="large"), task(3, size="small")]
        )
        tx.queue.enqueue("main", "flights.other", [task(1), task(2), task(3, size="large")])
        assert {n: tx.queue.tasks([d(n)])[d(n)].size for n in (1, 2, 3)} == {
            1: "standard",
            2: "large",
            3: "large",
        }


def test_how_demanded_tasks_stand_is_told_of_many_datasets(world: World) -> None:
    with world.begin() as tx:
        tx.queue.enqueue("main", DAILY, [task(1, size="small"), task(2, priority=3)])
        tx.queue.enqueue("main", "flights.other", [task(1, size="large")])
        assert tx.queue.demanded("main", [DAILY, "flights.none"]) == {
            DAILY: {d(1): Demand("queued", "large", 0), d(2): Demand("queued", "standard", 3)}
        }


def test_demanded_tasks_are_counted_by_state(world: World) -> None:
    with world.begin() as tx:
        tx.queue.enqueue("main", DAILY, [task(1), task(2), task(3)])
        tx.queue.enqueue("main", "flights.other", [task(1)])
        tx.queue.enqueue("dev", DAILY, [task(3)])
        claimed(tx, n=1)
        assert tx.queue.fail("a1", d(1), error())
        assert tx.queue.demand_counts("main") == {
            DAILY: {"failed": 1, "queued": 2},
            "flights.other": {"failed": 1},
        }
        assert tx.queue.demand_counts("dev") == {DAILY: {"queued": 1}}
        assert tx.queue.demand_counts("other") == {}


def test_what_failed_at_a_size_is_tried_at_a_larger_one(world: World) -> None:
    with world.begin() as tx:
        tx.queue.enqueue("main", DAILY, [task(1, size="small"), task(2, size="small")])
        claim(tx)
        for n in (1, 2):
            tx.queue.fail("a1", d(n), error())
        tx.queue.enqueue("main", "flights.other", [task(1, size="large"), task(2, size="small")])
        assert states(tx, 1, 2) == ["queued", "failed"]
        assert tx.queue.tasks([d(1)])[d(1)] == task(1, size="large", epoch=1)


def test_claims_are_of_the_placements_that_a_process_takes(world: World) -> None:
    """A task with the placement `either` goes to workers and drivers; one batch has one
    placement."""
    parse = partial(task, kind="parse", size="small")
    with world.begin() as tx:
        tx.queue.enqueue(
            "main", DAILY, [parse(1), parse(2, placement="either"), parse(3, placement="either")]
        )
        assert tx.queue.tasks([d(2)])[d(2)].placement == "either"
        assert tx.queue.backlog(placements=STARTED_FOR["worker"]) == {"parse": 2}
        assert tx.queue.backlog(placements=STARTED_FOR["driver"]) == {"parse": 1}
        assert tx.queue.waiting_since(["worker"]) is None
        asked: list[Collection[Placement]] = [
            ["worker"],
            ["worker", "either"],
            placements_for(["parse"]),
        ]
        made = [
            tx.queue.claim(
                f"a{i}",
                "driver",
                ["parse"],
                max_tasks=9,
                lease_s=5.0,
                placements=of,
            )
            for i, of in enumerate(asked)
        ]
        assert [one and set(one.tasks) for one in made] == [None, {d(2), d(3)}, {d(1)}]
        tx.queue.fail("a1", d(2), error())
        tx.queue.enqueue("main", DAILY, [parse(2, size="large", placement="either")])
        assert tx.queue.tasks([d(2)])[d(2)] == parse(2, size="large", placement="either", epoch=1)
        tx.queue.enqueue("main", DAILY, [parse(1, size="large", placement="either"), parse(3)])
        assert [tx.queue.tasks([d(n)])[d(n)].placement for n in (1, 3)] == ["either", "either"]


def test_what_a_worker_waits_with_is_no_work_until_then(world: World) -> None:
    with world.begin() as tx:
        tx.queue.enqueue("main", DAILY, [task(1), task(2)])
        tx.queue.wait_until(claimed(tx, n=1), tx.now() + 20.0)
        assert tx.queue.backlog() == {"transform": 1}
        assert tx.queue.waiting_attempts() == {"a1"}
        claimed(tx, "a2")
    with world.read() as tx:
        assert tx.queue.backlog() == {"transform": 1}
        assert tx.queue.waiting_attempts() == {"a1"}
    with world.begin() as tx:
        [waiting, working] = (tx.queue.attempts()[name] for name in ("a1", "a2"))
        tx.queue.wait_until(waiting, tx.now())
        tx.queue.wait_until(replace(working, id="a3"), tx.now() + 20.0)
        assert tx.queue.backlog() == {"transform": 2}
        assert not tx.queue.waiting_attempts()


def test_claims_are_of_the_sizes_asked_for(world: World) -> None:
    with world.begin() as tx:
        tx.queue.enqueue(
            "main",
            DAILY,
            [task(1, size="large"), task(2), task(3, size="large"), task(4, kind="list")],
        )
        assert (tx.queue.backlog(["large"]), tx.queue.backlog(["small"])) == ({"transform": 2}, {})
        assert tx.queue.backlog() == {"transform": 3, "list": 1}
        wanted: list[list[Size]] = [["small"], ["small", "standard"], ["standard", "large"]]
        made = [
            tx.queue.claim(f"a{n}", "x", ["transform"], max_tasks=9, lease_s=9, sizes=sizes)
            for n, sizes in enumerate(wanted)
        ]
    assert [set(found.tasks) if found else None for found in made] == [None, {d(2)}, {d(1), d(3)}]
    assert {found.kind for found in made if found} == {"transform"}


def test_a_raised_size_is_that_of_queued_tasks_of_the_dataset_and_kind(world: World) -> None:
    raised = RaisedSize(DAILY, "large", 5.0)
    with world.begin() as tx:
        tx.queue.enqueue("main", DAILY, [task(n) for n in (1, 2, 3)] + [task(4, kind="parse")])
        tx.queue.enqueue("main", "flights.other", [task(5, dataset="flights.other")])
        tx.queue.put_raised_size(RaisedSize(DAILY, "standard", 1.0), "transform")
        claimed(tx, n=1)
        tx.queue.put_raised_size(raised, "transform")
        tasks = tx.queue.tasks([d(n) for n in range(1, 6)])
        assert [tasks[d(n)].size for n in range(1, 6)] == [
            "standard",
            "large",
            "large",
            "standard",
            "standard",
        ]
        assert tx.queue.raised_sizes() == {DAILY: raised}
        assert tx.queue.drop_raised_sizes(5.0) == 0
        assert tx.queue.drop_raised_sizes(6.0) == 1
        assert tx.queue.raised_sizes() == {}


def test_a_task_that_failed_is_tried_among_fewer_others_and_alone_at_last(world: World) -> None:
    most, counts = 64, []
    with world.begin() as tx:
        tx.queue.enqueue("main", DAILY, [task(n) for n in range(1, 65)])
    for number in range(4):
        with world.begin() as tx:
            attempt = claimed(tx, f"a{number}", n=most)
            counts.append(len(attempt.tasks))
            tx.queue.release(
                list(attempt.tasks), attempt=attempt.id, not_before=0.0, error=None, burn=True
            )
    assert counts == [64, 8, 1, 1]


def test_done_tasks_are_queued_again_when_asked_for(world: World) -> None:
    with world.begin() as tx:
        tx.queue.enqueue("main", DAILY, [task(1, priority=4), task(2)])
        claim(tx)
        tx.queue.finish("a1", [d(1)])
        again = task(1, spec={"slots": {}}, dataset="other.set", size_bytes=99)
        assert tx.queue.enqueue("main", "other.set", [again, task(2)]) == 1
        assert tx.queue.tasks([d(1)]) == {d(1): replace(again, epoch=1, priority=4)}
        assert states(tx, 1, 2) == ["queued", "running"]
        made = tx.queue.claim("a2", "x", ["transform"], max_tasks=9, lease_s=1)
        assert made is not None
        assert made.tasks == {d(1): 2}


def test_a_write_that_was_given_up_while_it_runs_begins_again_when_asked_for(world: World) -> None:
    first, other, again = (
        task(n, kind="write", spec={"generation": g}) for n, g in ((1, 2), (2, 3), (1, 4))
    )
    with world.begin() as tx:
        tx.queue.enqueue("main", DAILY, [first])
        assert claim(tx, "a1", ["write"])
        assert tx.queue.enqueue("main", DAILY, [again]) == 0, (
            "what is wished for all the time goes on"
        )
        tx.queue.drop_demands("main", DAILY)
        tx.queue.enqueue("main", DAILY, [other])
        tx.queue.drop_demands("main", DAILY)
        assert tx.queue.enqueue("main", DAILY, [again]) == 1
        assert tx.queue.tasks([d(1)]) == {d(1): replace(again, epoch=1)}
        assert tx.queue.finish("a1", [d(1)]) == frozenset(), (
            "nobody knows whether the other was written after it"
        )
        made = claim(tx, "a2", ["write"])
        assert made is not None
        assert made.tasks == {d(1): 2}


def test_a_running_task_that_is_no_write_is_not_begun_again(world: World) -> None:
    with world.begin() as tx:
        tx.queue.enqueue("main", DAILY, [task(1)])
        claim(tx)
        tx.queue.drop_demands("main", DAILY)
        assert tx.queue.enqueue("main", DAILY, [task(1)]) == 0
        assert tx.queue.finish("a1", [d(1)]) == {d(1)}


def test_failed_tasks_stay_failed_when_asked_for(world: World) -> None:
    with world.begin() as tx:
        tx.queue.enqueue("main", DAILY, [task(1)])
        claim(tx)
        tx.queue.fail("a1", d(1), error())
        assert tx.queue.enqueue("main", "flights.other", [task(1)]) == 0
        assert tx.queue.tasks([d(1)])[d(1)].error == error()


def test_only_undemanded_tasks_go(world: World) -> None:
    with world.begin() as tx:
        tx.queue.enqueue("main", DAILY, [task(n) for n in (1, 2, 3, 4, 5)])
        tx.queue.enqueue("dev", DAILY, [task(2)])
        claimed(tx, n=2)
        tx.queue.release([d(2)], attempt="a1", not_before=0, error=None, burn=False)
        assert tx.queue.drop_demands("main", DAILY, keep=[d(3), d(9)]) == 4
        assert states(tx, 1, 2, 3, 4, 5) == ["running", "queued", "queued", "none", "none"]
        assert set(tx.queue.demands("main", DAILY)) == {d(3)}
        assert tx.queue.drop_demands("main", DAILY) == 1
        assert tx.queue.drop_demands("main", DAILY) == 0
        assert states(tx, 1, 2, 3) == ["running", "queued", "none"]


def test_done_tasks_outlive_their_demand_and_failed_ones_do_not(world: World) -> None:
    with world.begin() as tx:
        tx.queue.enqueue("main", DAILY, [task(1), task(2)])
        claim(tx)
        tx.queue.finish("a1", [d(1)])
        tx.queue.fail("a1", d(2), error())
        tx.queue.drop_demands("main", DAILY)
        assert states(tx, 1, 2) == ["done", "none"]


def test_tasks_are_handed_over_to_other_processes(world: World) -> None:
    slices = [replace(task(n), kind="slice", placement="worker") for n in (1, 2, 3)]
    slices[1] = replace(slices[1], size="large")
    with world.begin() as tx:
        tx.queue.enqueue("main", DAILY, slices)
    with world.begin() as tx:
        assert claim(tx, "a1", ["slice"], n=1) is not None
        assert tx.queue.hand_over("other", slices[:1], "parse") == frozenset()
        assert tx.queue.hand_over("a1", slices[:1], "parse") == {d(1)}
        tx.queue.end_attempt("a1")
    with world.begin() as tx:
        tasks = tx.queue.tasks([d(1), d(2), d(3)])
        assert [tasks[d(n)].kind for n in (1, 2, 3)] == ["parse", "slice", "slice"]
        assert (tasks[d(1)].state, tasks[d(1)].placement) == ("queued", "driver")
        assert tx.queue.hand_over_queued("slice", "parse") == 2
        tasks = tx.queue.tasks([d(2), d(3)])
        assert [(t.kind, t.placement) for t in tasks.values()] == [("parse", "driver")] * 2
        assert tasks[d(2)].size == "large"


def test_released_tasks_that_nobody_wants_go(world: World) -> None:
    with world.begin() as tx:
        tx.queue.enqueue("main", DAILY, [task(1)])
        claim(tx)
        tx.queue.drop_demands("main", DAILY)
        assert tx.queue.release([d(1)], attempt="a1", not_before=0, error=None, burn=True) == 1
        assert states(tx, 1) == ["none"]


def test_a_failed_task_is_retried_with_a_fresh_budget(world: World) -> None:
    with world.begin() as tx:
        tx.queue.enqueue("main", DAILY, [task(1), task(2)])
        tx.queue.enqueue("main", "flights.other", [task(3, dataset="flights.other")])
        claim(tx)
        tx.queue.release([d(1)], attempt="a1", not_before=0, error=error(), burn=True)
        claim(tx, "a2")
        for attempt, key in (("a2", d(1)), ("a1", d(2))):
            assert tx.queue.fail(attempt, key, error())
        claim(tx, "a3")
        assert tx.queue.fail("a3", d(3), error())
        assert tx.queue.retry("dev", [DAILY]) == 0
        assert tx.queue.retry("main", [DAILY, "nope"]) == 2
        assert tx.queue.tasks([d(1), d(2)]) == {d(1): task(1, epoch=2), d(2): task(2, epoch=1)}
        assert states(tx, 3) == ["failed"]


def test_only_some_failed_tasks_are_retried(world: World) -> None:
    with world.begin() as tx:
        tx.queue.enqueue("main", DAILY, [task(1), task(2), task(4)])
        tx.queue.enqueue("main", "flights.other", [task(3, dataset="flights.other")])
        for attempt in ("a1", "a2"):
            for key in claimed(tx, attempt).tasks:
                tx.queue.fail(attempt, key, error())
        assert tx.queue.retry("main", [DAILY], [d(1), d(3), d(9)]) == 1
        assert (states(tx, 1), states(tx, 2), states(tx, 3)) == (["queued"], ["failed"], ["failed"])
        assert tx.queue.retry("main", [DAILY], []) == 0
        assert tx.queue.retry("dev", [DAILY], [d(2)]) == 0


# --- claims


def test_a_claim_takes_a_batch_and_says_what_it_holds(world: World) -> None:
    with world.begin() as tx:
        assert claim(tx) is None
        tx.queue.enqueue("main", DAILY, [task(1), task(2)])
        made = claimed(tx)
        assert made == Attempt(
            id="a1",
            dataset=DAILY,
            driver="driver-1",
            kind="transform",
            job=d(0),
            prefix=f"{world.namespace}/flights/daily/_frags/a1/a1",
            tasks={d(1): 1, d(2): 1},
            lease_until=made.at + 30,
            at=tx.now(),
            queued_at=made.queued_at,
            partition="2013-1.csv",
        )
        assert tx.now() - 1 < made.queued_at <= tx.now()
        assert claim(tx, "a2") is None
    with world.read() as tx:
        assert tx.queue.attempts() == {"a1": made}
        assert tx.queue.tasks([d(1)]) == {d(1): task(1, state="running", epoch=1, attempt="a1")}


def test_priority_first_then_age(world: World) -> None:
    with world.begin() as tx:
        tx.queue.enqueue("main", DAILY, [task(9), task(8)])
        tx.queue.enqueue("main", DAILY, [task(7)])
        tx.queue.enqueue("main", DAILY, [task(6, priority=1), task(5, priority=-1)])
        order = [claimed(tx, str(i), n=1).tasks for i in range(5)]
    assert order == [{d(n): 1} for n in (6, 9, 8, 7, 5)]


def test_a_batch_is_of_one_job_and_dataset(world: World) -> None:
    with world.begin() as tx:
        tx.queue.enqueue(
            "main", DAILY, [task(1), task(2, job=d(77)), task(3, dataset="flights.other"), task(4)]
        )
        assert [set(claimed(tx, str(i)).tasks) for i in range(3)] == [{d(1), d(4)}, {d(2)}, {d(3)}]


def test_a_batch_has_limits(world: World) -> None:
    with world.begin() as tx:
        tx.queue.enqueue("main", DAILY, [task(n, size_bytes=10) for n in range(1, 8)])
        taken = [len(claimed(tx, str(n), n=n).tasks) for n in (1, 2, 0)]
        assert taken == [1, 2, 1]
        asked = list[Candidates]()

        def first_two(of: Candidates) -> int:
            asked.append(of)
            return 2

        made = [
            tx.queue.claim(f"b{i}", "x", ["transform"], max_tasks=9, lease_s=1, count_of=first_two)
            for i in range(2)
        ]
    assert [attempt and set(attempt.tasks) for attempt in made] == [{d(5), d(6)}, {d(7)}]
    assert asked == [Candidates(DAILY, "transform", task(1).job, [10, 10, 10])], "not of one alone"


def test_a_delay_that_was_set_before_the_clock_went_back_is_over(world: World) -> None:
    with world.begin() as tx:
        tx.queue.enqueue("main", DAILY, [task(1, not_before=tx.now() + 6 * 3600)])
        assert tx.queue.backlog() == {"transform": 1}
        assert set(claimed(tx).tasks) == {d(1)}


def test_a_claim_is_of_known_kinds_and_due_tasks(world: World) -> None:
    with world.begin() as tx:
        later = tx.now() + LONGEST_DELAY_S / 2
        tx.queue.enqueue("main", DAILY, [task(1, kind="list"), task(2, not_before=later), task(3)])
        assert tx.queue.backlog() == {"list": 1, "transform": 1}
        assert claim(tx, kinds=["write", "parse"]) is None
        assert set(claimed(tx).tasks) == {d(3)}
        assert claim(tx, "a2") is None
        made = claim(tx, "a3", ["write", "list"])
        assert made is not None
        assert made.kind == "list"
        assert tx.queue.backlog() == {"list": 1, "transform": 1}
        tx.queue.finish("a3", [d(1)])
        assert tx.queue.backlog() == {"transform": 1}


def test_no_task_is_claimed_twice(world: World) -> None:
    with world.begin() as tx:
        tx.queue.enqueue("main", DAILY, [task(n, job=d(n % 3)) for n in range(60)])
    start = threading.Barrier(4)

    def work(worker: int) -> list[bytes]:
        start.wait()
        mine: list[bytes] = []
        for turn in range(1000):
            with world.begin() as tx:
                made = claim(tx, f"{worker}-{turn}", n=3)
                if made is None and not tx.queue.backlog():
                    return mine
                if made is not None:
                    mine += made.tasks
                    assert tx.queue.finish(made.id, list(made.tasks)) == set(made.tasks)
                    tx.queue.end_attempt(made.id)
        raise AssertionError("the queue never got empty")

    with ThreadPoolExecutor(4) as pool:
        taken = [key for mine in pool.map(work, range(4)) for key in mine]
    assert sorted(taken) == sorted(d(n) for n in range(60))
    with world.read() as tx:
        assert {t.epoch for t in tx.queue.tasks(taken).values()} == {1}
        assert tx.queue.attempts() == {}


def test_a_task_that_one_drops_while_another_asks_is_kept(world: World) -> None:
    """Whoever comes second sees what the first one did: no demand is ever left without its task."""

    def ask(n: int) -> None:
        for _ in range(10):
            with world.begin() as tx:
                tx.queue.enqueue("main", f"set.{n}", [task(2), task(1)])
            with world.begin() as tx:
                assert set(tx.queue.demands("main", f"set.{n}")) == {d(1), d(2)}
                tx.queue.drop_demands("main", f"set.{n}")

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(ask, range(4)))
    with world.read() as tx:
        assert tx.queue.tasks([d(1), d(2)]) == {}


# --- fencing


@pytest.fixture
def lost(world: World) -> World:
    """Attempt a1 lost its tasks 1 and 2; a2 has task 1 now, and task 2 waits."""
    with world.begin() as tx:
        tx.queue.enqueue("main", DAILY, [task(1), task(2)])
        claim(tx)
        tx.queue.release([d(1), d(2)], attempt="a1", not_before=0, error=None, burn=True)
        claim(tx, "a2", n=1)
    return world


def test_an_old_epoch_changes_nothing(lost: World) -> None:
    with lost.begin() as tx:
        before = tx.queue.tasks([d(1), d(2)])
        assert tx.queue.finish("a1", [d(1), d(2), d(3)]) == frozenset()
        assert not tx.queue.fail("a1", d(1), error())
        assert not tx.queue.fail("a1", d(2), error())
        assert (
            tx.queue.release([d(1), d(2)], attempt="a1", not_before=9e9, error=error(), burn=True)
            == 0
        )
        assert tx.queue.tasks([d(1), d(2)]) == before
        assert before[d(1)] == task(1, state="running", epoch=2, attempt="a2", failures=1)
        assert before[d(2)] == task(2, epoch=1, failures=1)


def test_tasks_of_a_batch_end_one_by_one(world: World) -> None:
    with world.begin() as tx:
        tx.queue.enqueue("main", DAILY, [task(n) for n in (1, 2, 3, 4)])
        claim(tx)
        assert tx.queue.finish("a1", [d(1), d(9)]) == {d(1)}
        assert tx.queue.finish("a1", [d(1), d(2)]) == {d(2)}
        assert tx.queue.fail("a1", d(3), error())
        assert not tx.queue.fail("a1", d(3), error())
        assert (
            tx.queue.release(
                [d(1), d(4)], attempt="a1", not_before=1.5, error=error("x"), burn=False
            )
            == 1
        )
        tx.queue.end_attempt("a1")
    with world.read() as tx:
        assert states(tx, 1, 2, 3, 4) == ["done", "done", "failed", "queued"]
        assert tx.queue.tasks([d(4)]) == {d(4): task(4, epoch=1, not_before=1.5, error=error("x"))}
        assert tx.queue.attempts() == {}


def test_a_finished_task_has_no_error(world: World) -> None:
    with world.begin() as tx:
        tx.queue.enqueue("main", DAILY, [task(1)])
        claim(tx)
        tx.queue.release([d(1)], attempt="a1", not_before=0, error=error(), burn=True)
        claim(tx, "a2")
        assert tx.queue.tasks([d(1)])[d(1)].error == error()
        tx.queue.finish("a2", [d(1)])
        assert tx.queue.tasks([d(1)]) == {
            d(1): task(1, state="done", epoch=2, attempt="a2", failures=1)
        }


def test_a_lease_can_be_renewed_while_the_attempt_is_there(world: World) -> None:
    with world.begin() as tx:
        tx.queue.enqueue("main", DAILY, [task(1), task(2, job=d(5))])
        tx.queue.claim("a1", "one", ["transform"], max_tasks=1, lease_s=-1000)
        tx.queue.claim("a2", "two", ["transform"], max_tasks=1, lease_s=-1000)
        assert all(a.lease_until < tx.now() for a in tx.queue.attempts().values())
        assert tx.queue.extend("one", ["a1", "a2", "a3"], 60) == {"a1"}
        assert {
            i: a.lease_until - tx.now() for i, a in tx.queue.attempts().items()
        } == pytest.approx({"a1": 60, "a2": -1000})
        assert tx.queue.attempts(["a1", "a3"]).keys() == {"a1"}
        tx.queue.end_attempt("a1")
        tx.queue.end_attempt("a1")
        assert tx.queue.extend("one", ["a1"], 60) == frozenset()
        assert tx.queue.extend("one", [], 60) == frozenset()


def test_live_attempts_are_referenced(world: World) -> None:
    with world.begin() as tx:
        tx.queue.enqueue("main", DAILY, [task(1)])
        claim(tx, "a1")
        tx.traces.put([], [fragment(1, attempt="a0")])
        assert tx.traces.referenced_attempts(["a0", "a1", "a2"]) == {"a0", "a1"}


def test_jobs(world: World) -> None:
    with world.begin() as tx:
        tx.queue.put_job(d(1), stored_job(sql="SELECT 'é'"))
        tx.queue.put_job(d(1), stored_job(sql="other"))
        assert tx.queue.jobs([d(1), d(2)]) == {d(1): stored_job(sql="SELECT 'é'")}


def test_a_large_window_is_a_few_statements(world: World) -> None:
    tasks: list[Task] = [task(n) for n in range(3000)]
    with world.begin() as tx:
        before = world.store.statements
        assert tx.queue.enqueue("main", DAILY, tasks) == 3000
        assert len(tx.queue.demands("main", DAILY)) == 3000
        assert tx.queue.drop_demands("main", DAILY) == 3000
        assert world.store.statements - before < 12
        assert tx.queue.tasks([t.key for t in tasks]) == {}


# --- fairness


def test_a_claim_leaves_out_dataflows(world: World) -> None:
    with world.begin() as tx:
        tx.queue.enqueue("main", DAILY, [task(1, dataset=DAILY)])
        tx.queue.enqueue("main", "flightsy.daily", [task(2, dataset="flightsy.daily")])
        left_out = ["flights", "other"]
        made = [
            tx.queue.claim(f"a{i}", "x", ["transform"], max_tasks=9, lease_s=9, without=left_out)
            for i in range(2)
        ]
        assert [set(found.tasks) if found else None for found in made] == [{d(2)}, None]
        assert claim(tx, "a3") is not None


def test_tasks_may_stand_further_back_in_the_queue(world: World) -> None:
    with world.begin() as tx:
        tx.queue.enqueue("main", DAILY, [task(1)], after_s=60.0)
        tx.queue.enqueue("main", DAILY, [task(2)])
        assert [set(claimed(tx, f"a{i}", n=1).tasks) for i in range(2)] == [{d(2)}, {d(1)}]


def test_how_long_due_tasks_have_waited(world: World) -> None:
    with world.begin() as tx:
        assert tx.queue.waiting_since(["driver", "worker"]) is None
        tx.queue.put_job(d(0), stored_job())
        tx.queue.enqueue("main", DAILY, [task(1), replace(task(2), not_before=tx.now() + 60.0)])
    with world.begin() as tx:
        since = tx.queue.waiting_since(["driver"])
        assert since is not None
        assert since <= tx.now()
        assert tx.queue.waiting_since(["worker"]) is None
        claimed(tx, n=2)
        assert tx.queue.waiting_since(["driver"]) is None, "one runs, and the other is not due"
        tx.queue.release([d(1)], attempt="a1", not_before=since + 0.5, error=None, burn=False)
    with world.begin() as tx:
        assert tx.queue.waiting_since(["driver"]) in (None, since + 0.5), (
            "from when it is due again"
        )

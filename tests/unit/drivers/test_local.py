"""The local pool with real processes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from select import poll
from typing import Any

import pytest

from controlplane.core.model import namespaces
from controlplane.core.model.drivers import Driver
from controlplane.drivers.backoff import FIRST_PAUSE_S, LONGEST_PAUSE_S, SHORT_LIFE_S, Backoff
from controlplane.drivers.liveness import Liveness
from controlplane.drivers.local_pool import LocalPool, inherited, secrets_of

HERE = Path(__file__).parent
FAILSAFE_MS = 60_000  # a broken pool is to fail its tests, not to hang them


class World:
    """Pools whose clock stands still, with children that follow orders and report through a named
    pipe."""

    def __init__(self, home: Path) -> None:
        self.home, self.now = home, 0.0
        self.pools: list[LocalPool] = []
        self._report = home / "report"
        os.mkfifo(self._report)
        self._reports = open(os.open(self._report, os.O_RDWR), encoding="utf-8")  # noqa: SIM115  # open for all of a test

    def environment(self, orders: str) -> dict[str, str]:
        told = {"SECRET_OF_ORDERS": orders, "SECRET_OF_REPORT": str(self._report)}
        prefixes = ("HEADGATE_", "HEADGATE_NAMESPACE__TEAM_A__")
        ours = {prefix + name: value for prefix in prefixes for name, value in told.items()}
        return (
            os.environ
            | ours
            | {
                "PYTHONPATH": str(HERE.parents[2]),
                "HEADGATE_DATABASE_URL": "postgresql://u:secret@h/d",
            }
        )

    def pool(self, orders: str, **options: Any) -> LocalPool:
        pool = LocalPool(
            "http://127.0.0.1:1",
            self.home,
            lambda id: f"token of {id}",
            command=(sys.executable, str(HERE / "child.py")),
            environment=self.environment(orders),
            monotonic=lambda: self.now,
            **options,
        )
        self.pools.append(pool)
        return pool

    def report(self) -> Any:
        """What the next child to come says; waits for it."""
        return json.loads(self._reports.readline())

    def close(self) -> None:
        for pool in self.pools:
            pool.close()
        self._reports.close()


def wait_for_end(pid: int) -> None:
    """Until a process, whoever's child it is, has ended."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        events = poll()
        events.register(handle)
        assert events.poll(FAILSAFE_MS), f"process {pid} does not end"
    finally:
        os.close(handle)


def only(drivers: tuple[Driver, ...]) -> Driver:
    (driver,) = drivers
    return driver


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path)
    yield world
    world.close()


def test_children_get_an_address_a_token_and_no_secrets_of_ours(world: World) -> None:
    pool = world.pool("stay")
    pool.scale("worker", 1)
    seen = world.report()
    driver = only(pool.poll())
    assert (driver.pool, driver.kind, driver.ended) == ("local", "worker", False)
    assert only(pool.poll()) == driver, "else each pass of the loop stores it again"
    assert (seen["kind"], seen["token"]) == ("worker", f"token of {driver.id}")
    assert "HEADGATE_TOKEN_FILE" not in seen["environment"]
    assert not any(name.startswith("HEADGATE_SECRET") for name in seen["environment"])
    assert seen["environment"]["HEADGATE_URL"] == "http://127.0.0.1:1"
    assert seen["environment"]["HEADGATE_HOME"] == str(world.home)
    assert "secret@" not in str(seen["environment"])


def test_scaling_is_a_level(world: World) -> None:
    pool = world.pool("stay")
    for _ in range(3):
        pool.scale("worker", 2)
    reports = [world.report(), world.report()]
    assert len(pool.poll()) == 2
    pool.scale("worker", 1)
    pool.scale("worker", 1)
    pids = {r["pids"][0] for r in reports}
    ended = [d for d in _poll_until_ended(pool, pids) if d.ended]
    assert [d.reason for d in ended] == ["ended as asked"]
    assert len(pool.poll()) == 1


def test_a_driver_says_that_spark_is_starting_until_it_is_there(world: World) -> None:
    liveness = Liveness(lambda: world.now)
    pool = world.pool("stay", liveness=liveness)
    pool.scale("driver", 1)
    pool.scale("worker", 1)
    for _ in range(2):
        world.report()
    reasons = {driver.kind: driver.reason for driver in pool.poll()}
    assert reasons == {"driver": "Spark is starting", "worker": ""}
    for driver in pool.poll():
        liveness.note(driver.id)
    assert any(driver.reason for driver in pool.poll())  # a claim comes before Spark is there
    for driver in pool.poll():
        liveness.note_spark(driver.id)
    assert not any(driver.reason for driver in pool.poll())


def _poll_until_ended(pool: LocalPool, pids: set[int]) -> tuple[Driver, ...]:
    """Wait for the first of these processes to end."""
    handles = [os.pidfd_open(pid) for pid in pids]
    events = poll()
    for handle in handles:
        events.register(handle)
    assert events.poll(FAILSAFE_MS), "none of the processes ends"
    for handle in handles:
        os.close(handle)
    return pool.poll()


def end_of(
    world: World, orders: str, kill: signal.Signals | None = None
) -> tuple[LocalPool, Driver]:
    """A worker's end as the pool tells it."""
    pool = world.pool(orders)
    pool.scale("worker", 1)
    pid = world.report()["pids"][0]
    if kill:
        os.kill(pid, kill)
    wait_for_end(pid)
    driver = only(pool.poll())
    assert driver.ended
    assert pool.poll() == ()
    return pool, driver


@pytest.mark.parametrize(
    ("orders", "kill", "reason"),
    [
        (
            "stay",
            signal.SIGKILL,
            "killed by SIGKILL: by a person, or because the machine ran out of memory",
        ),
        ("stay", signal.SIGTERM, "killed by SIGTERM"),
        ("end", None, "exited with code 0"),
        ("fail", None, "exited with code 1: and the last line"),
        (
            "jvm-refuses",
            None,
            'exited with code 1: Spark\'s JVM did not start: Exception in thread "main" '
            "org.apache.spark.SparkException: Executor memory must be a positive number",
        ),
        ("memory", None, "ran out of memory (exited with code 1); see worker-"),
    ],
)
def test_ends_are_told_in_words(
    world: World, orders: str, kill: signal.Signals | None, reason: str
) -> None:
    _, driver = end_of(world, orders, kill)
    assert driver.reason.startswith(reason)
    assert (driver.fault == "memory") == (orders == "memory")


def test_a_dead_child_takes_its_family_along(world: World) -> None:
    pool = world.pool("family")
    pool.scale("driver", 1)
    leader, grandchild = world.report()["pids"]
    os.kill(leader, signal.SIGKILL)
    wait_for_end(leader)
    pool.poll()
    wait_for_end(grandchild)


def test_restarts_wait_longer_and_longer(world: World) -> None:
    pool, _ = end_of(world, "fail")
    pool.scale("worker", 1)
    assert pool.poll() == ()
    world.now += FIRST_PAUSE_S
    pool.scale("worker", 1)
    wait_for_end(world.report()["pids"][0])
    assert only(pool.poll()).ended
    world.now += FIRST_PAUSE_S
    pool.scale("worker", 1)
    assert pool.poll() == ()
    pool.scale("driver", 1)
    world.report()
    assert only(pool.poll()).kind == "driver"


def test_backoff_has_a_cap_and_forgets() -> None:
    backoff = Backoff()
    pauses = []
    for _ in range(12):
        backoff.after(0.1, 100.0)
        pauses.append(backoff.until - 100.0)
    assert pauses[:3] == [FIRST_PAUSE_S, 2 * FIRST_PAUSE_S, 4 * FIRST_PAUSE_S]
    assert pauses[-1] == LONGEST_PAUSE_S
    backoff.after(SHORT_LIFE_S, 200.0)
    assert backoff.until == 200.0


def test_closing_ends_everything(world: World) -> None:
    pool = world.pool("family")
    pool.scale("worker", 1)
    pool.scale("driver", 1)
    pids = [*world.report()["pids"], *world.report()["pids"]]
    pool.close()
    for pid in pids:
        wait_for_end(pid)
    pool.close()
    assert pool.poll() == ()
    assert not [
        path
        for path in world.home.rglob("*")
        if path.is_file() and b"token of" in path.read_bytes()
    ]


def test_closing_does_not_wait_for_the_stubborn_for_ever(world: World) -> None:
    pool = world.pool("stubborn", grace_s=0.0)
    pool.scale("worker", 1)
    (pid,) = world.report()["pids"]
    pool.close()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_children_end_with_a_parent_that_was_killed(world: World) -> None:
    with subprocess.Popen(
        [sys.executable, HERE / "parent.py", world.home, HERE / "child.py"],
        env=world.environment("jvm"),
    ) as parent:
        pids = [*world.report()["pids"], *world.report()["pids"]]
        parent.kill()
    assert len(pids) == 4
    for pid in pids:
        wait_for_end(pid)


def test_what_children_have_started_ends_with_a_parent_that_was_killed(world: World) -> None:
    with subprocess.Popen(
        [sys.executable, HERE / "parent.py", world.home, HERE / "child.py"],
        env=world.environment("family"),
    ) as parent:
        # With what looks at no pipe, as a JVM that starts
        pids = [*world.report()["pids"], *world.report()["pids"]]
        parent.kill()
    assert len(pids) == 4
    for pid in pids:
        wait_for_end(pid)


def test_a_pool_ends_what_an_earlier_one_of_its_home_left(world: World) -> None:
    earlier = world.pool("family")
    earlier.scale("worker", 1)
    earlier.scale("driver", 1)
    # In whatever order
    pids = {report["kind"]: report["pids"] for report in (world.report(), world.report())}
    left, spared = pids["worker"], pids["driver"]
    records = {
        json.loads(path.read_text())["pid"]: path for path in (world.home / "run").glob("child-*")
    }
    record = records[spared[0]]
    # Its number is another process's
    record.write_text(json.dumps({"pid": spared[0], "began": "at another time"}))
    later = world.pool("family")
    later.poll()
    # What was finished there is adopted first
    assert not any(driver.ended for driver in earlier.poll())
    later.scale("worker", 0)
    for pid in left:
        wait_for_end(pid)
    assert [driver.ended for driver in earlier.poll() if driver.kind == "driver"] == [False]
    assert os.getpgid(spared[0]) == spared[0]
    assert not list((world.home / "run").glob("child-*"))


def test_children_stay_when_the_thread_that_asked_for_them_ends(world: World) -> None:
    pool = world.pool("stay")
    pids: list[int] = []

    def ask() -> None:
        pool.scale("worker", 1)
        pids.extend(world.report()["pids"])

    asking = threading.Thread(target=ask)
    asking.start()
    asking.join()
    while Path(f"/proc/self/task/{asking.native_id}").exists():
        os.sched_yield()  # Python's thread has ended; the kernel's is about to
    assert not only(pool.poll()).ended
    (pid,) = pids
    os.kill(pid, signal.SIGTERM)
    wait_for_end(pid)
    assert only(pool.poll()).reason == "killed by SIGTERM"


def test_what_children_inherit() -> None:
    ours = {
        "HEADGATE_DATABASE_URL": "x",
        "HEADGATE_TOKEN": "x",
        "PGPASSWORD": "x",
        "HEADGATE_POOL": "x",
    }
    theirs = {"JAVA_HOME": "/java", "PATH": "/bin", "HEADGATE_SECRETS": "/s"}
    theirs |= {"HEADGATE_LAKE": "s3://bucket/x", "HEADGATE_JARS": "/jars", "AWS_REGION": "r"}
    secret_pipe = {"HEADGATE_SECRET_A_B": "y"}
    assert inherited(ours | theirs | secret_pipe) == theirs
    assert secrets_of(ours | theirs | secret_pipe) == secret_pipe


def test_namespaces_have_drivers_and_secrets_of_their_own() -> None:
    given = {
        "HEADGATE_SECRET_API_TOKEN": "of default",
        "HEADGATE_NAMESPACE__TEAM_A__SECRET_API_TOKEN": "of team-a",
        "HEADGATE_NAMESPACE__TEAM__SECRET_A__SECRET_API_TOKEN": "of team",
    }
    assert inherited(given) == {}
    assert secrets_of(given) == {"HEADGATE_SECRET_API_TOKEN": "of default"}
    assert secrets_of(given, "team-a") == {"HEADGATE_SECRET_API_TOKEN": "of team-a"}
    assert secrets_of(given, "team-b") == {}


def test_a_namespace_scales_its_own_drivers(world: World) -> None:
    """They keep what they keep in a folder of their own, and the home is none of theirs."""
    pool = world.pool("stay")
    pool.scale("worker", 1)
    of_default = world.report()
    pool.scale("worker", 2, namespace="team-a")
    of_team = world.report()
    world.report()
    assert Counter(namespaces.of_id(driver.id) for driver in pool.poll()) == {
        "default": 1,
        "team-a": 2,
    }
    assert of_team["token"].startswith("token of worker-")
    assert namespaces.of_id(of_team["token"].removeprefix("token of ")) == "team-a"
    home = str(world.home)
    assert (
        of_default["environment"]["HEADGATE_HOME"],
        of_default["environment"]["HEADGATE_INSTALLATION"],
    ) == (
        home,
        home,
    )
    assert of_team["environment"]["HEADGATE_HOME"] == f"{home}/namespaces/team-a"
    assert of_team["environment"]["HEADGATE_INSTALLATION"] == home
    pool.scale("worker", 0)
    _poll_until_ended(pool, {of_default["pids"][0]})
    assert Counter(namespaces.of_id(driver.id) for driver in pool.poll()) == {"team-a": 2}

"""The drivers and workers of one namespace: who is there, whose attempts are over, how many are
worth having.

One for all branches: a pool looked after by two would be scaled twice.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial

from controlplane import logs
from controlplane.core.errors import PoolUnavailable
from controlplane.core.model import driver_ends
from controlplane.core.model.drivers import Driver, Fault, StartNotices, spark_starting_s
from controlplane.core.model.events import NO_BRANCH, Event
from controlplane.core.model.leases import AHEAD, Deposed
from controlplane.core.model.namespaces import DEFAULT
from controlplane.core.model.scaling import DriverKeep, Level, PoolShare, warmest
from controlplane.core.model.tasks import Attempt, Size
from controlplane.core.plan.source.lane import SLICE
from controlplane.operations.context import Context
from controlplane.operations.desired import tokens
from controlplane.operations.failing_units import FailingUnits
from controlplane.operations.upkeep.orphans import sweep
from controlplane.operations.work import claims, rescue, slices
from controlplane.ports.lake import ObjectStore
from controlplane.ports.pool import DriverPool
from controlplane.ports.store import Tx
from controlplane.reconciler.shared_pool import DriverRequest, FairShare
from dataplane.contract.kinds import STARTED_FOR

NO_KEEPS: Mapping[Size, Sequence[DriverKeep]] = {}
SILENT_S = 60.0  # a driver that is alive but has not been heard of for so long loses its attempts
RESCUE_TRIES = 3  # after which the finished part of an attempt is computed again
log = logs.get("fleet")


@dataclass(frozen=True, slots=True)
class Lost:
    """Why an attempt is over without a report, and what its tasks have to do with it."""

    reason: str
    fault: Fault


@dataclass(frozen=True, slots=True)
class Noted:
    """Attempts and drivers by their ids, as the database has them, and its time."""

    attempts: Mapping[str, Attempt]
    waiting: frozenset[str]  # attempts that hold a listing, which may end at any time
    drivers: Mapping[str, Driver]
    now: float

    @property
    def busy(self) -> frozenset[str]:
        """Drivers that have work."""
        return frozenset(a.driver for id, a in self.attempts.items() if id not in self.waiting)


class Fleet:
    """Looked after by one thread, that of the loop. `context` is for the attempts that it ends."""

    def __init__(
        self,
        context: Context,
        lake: ObjectStore,
        pool: DriverPool,
        failing_units: FailingUnits | None = None,
        silent_s: float = SILENT_S,
        monotonic: Callable[[], float] = time.monotonic,
        *,
        fair: FairShare | None = None,
    ) -> None:
        """`fair`: who shares the pool with other namespaces. Without one, the pool is this one's
        alone."""
        self.lake = lake
        self._monotonic = monotonic
        self.context, self.pool = context, pool
        self._store, self._namespace = context.store, context.namespace
        self.failing_units = failing_units or FailingUnits()
        self._silent_s, self._fair = silent_s, fair
        self._draining: set[str] = set()  # drivers with a request to end
        self._drivers: dict[str, Driver] = {}  # by id, as they were last noted
        self._busy: frozenset[str] = frozenset()  # drivers that have work
        self._is_holding = False  # workers hold listings
        self._levels: dict[tuple[str, Size], Level] = {}  # by kind and size
        self._rescues: Counter[str] = Counter()  # by attempt: how often it could not be rescued
        # Drivers could not be heard before, so their leases say nothing
        self._hears_since: float | None = None
        self._clock_offset: float | None = None  # of the database's clock, from a monotonic one
        self._is_first_look = True
        self._notices = StartNotices()

    @property
    def has_warm_drivers(self) -> bool:
        """Drivers with Spark are wanted at present: small work costs no start."""
        return any(kind == "driver" and level.count for (kind, _), level in self._levels.items())

    @property
    def spark_starting_s(self) -> float | None:
        """For how long Spark has been starting, as of the last look; None if it is not."""
        return spark_starting_s(self._drivers.values(), time.time())

    def look_after(self) -> None:
        """Record the pool's report, and end the attempts of drivers that are gone or silent."""
        try:
            polled = {d.id: d for d in self.pool.poll()}
        except PoolUnavailable as e:
            log.warning("the pool cannot be looked at", reason=str(e))
            return
        noted = self._noted()
        present = polled if self._is_first_look else self._with_missing(polled, noted)
        self._busy, self._is_holding = noted.busy, bool(noted.waiting)
        left_behind = self._left_behind(present, noted)
        self._note(present, left_behind, noted)
        self._drivers.update(present)
        if sentence := self._notices.sentence(self.spark_starting_s):
            log.info(sentence, namespace=self._namespace)
        for attempt in noted.attempts.values():
            driver = present.get(attempt.driver) or self._ended_before(attempt.driver)
            lost = self._lost(attempt, driver, noted.now)
            if lost is not None:
                self._rescue(attempt, driver, lost)
        # The last process here did not end in order
        if self._is_first_look and (left_behind or noted.attempts):
            self.failing_units.attempt(
                "orphans", lambda: sweep(self._store, self._namespace, self.lake), None
            )
        self._is_first_look = False

    def scale(self, keeps: Mapping[Size, Sequence[DriverKeep]] = NO_KEEPS) -> None:
        """Scale the pool to as many workers and drivers as the waiting and running tasks are worth.
        All held listings together are worth one worker.

        `keeps`: how long dataflows with tasks of a size keep their drivers.
        """
        with self._store.read(self._namespace) as tx:
            tasks = [self._tasks(tx, share) for share in self.pool.shares]
            are_stranded = slices.are_stranded(tx)
        if are_stranded:
            with self._store.begin(self._namespace) as tx:
                tx.queue.hand_over_queued(SLICE, "parse")
        for share, count in zip(self.pool.shares, tasks, strict=True):
            keeps_here = [keep for size in share.serves for keep in keeps.get(size, ())]
            fit = partial(self._fit, share, count, keeps_here if share.kind == "driver" else [])
            self.failing_units.attempt(f"pool of {share.kind} {share.size}", fit, None)

    def _tasks(self, tx: Tx, share: PoolShare) -> int:
        count = sum(tx.queue.backlog(share.serves, STARTED_FOR[share.kind]).values())
        is_holding = share.kind == "worker" and self._is_holding
        return max(count, int(is_holding))

    def close(self) -> None:
        """Note that the drivers of this pool, closed before, ended with it; none where they outlive
        it."""
        if self.pool.outlives:
            return
        with suppress(Deposed), self._store.begin(self._namespace) as tx:
            for driver in tx.drivers.running():
                if driver.id in self._drivers:
                    tx.drivers.put(_with_its_maker(driver, tx.now()))

    # --- who is there -------------------------------------------------------------------------------

    def _noted(self) -> Noted:
        """While the database is away, drivers cannot renew their leases: the clock of their silence
        restarts."""
        try:
            with self._store.read(self._namespace) as tx:
                attempts, drivers = tx.queue.attempts(), {d.id: d for d in tx.drivers.running()}
                noted = Noted(attempts, tx.queue.waiting_attempts(), drivers, tx.now())
        except OSError:
            self._hears_since = None
            raise
        if self._hears_since is None or self._is_clock_set(noted.now):
            self._hears_since = noted.now
        return noted

    def _is_clock_set(self, now: float) -> bool:
        """The database's clock was set, or the machine slept, since the last look: no lease ran out
        by itself."""
        offset, before = now - self._monotonic(), self._clock_offset
        self._clock_offset = offset
        return before is not None and abs(offset - before) > claims.LEASE_S

    def _with_missing(self, polled: Mapping[str, Driver], noted: Noted) -> dict[str, Driver]:
        """The pool reports an end once, perhaps in a pass that failed before the end was stored."""
        missing = {
            id: replace(driver, seen=noted.now, ended=True, reason=driver_ends.GONE)
            for id, driver in noted.drivers.items()
        }
        return {**missing, **polled}

    def _left_behind(self, present: Mapping[str, Driver], noted: Noted) -> list[Driver]:
        """At the first look: drivers of an earlier control plane that ended with it."""
        if not self._is_first_look:
            return []
        return [driver for id, driver in noted.drivers.items() if id not in present]

    def _note(self, present: Mapping[str, Driver], left_behind: list[Driver], noted: Noted) -> None:
        """Store changed drivers, and report unexpected ends as events."""
        moved = [driver for driver in present.values() if self._drivers.get(driver.id) != driver]
        if not moved and not left_behind:
            return
        ended = {driver.id for driver in moved if driver.ended} | {
            driver.id for driver in left_behind
        }
        with self._store.begin(self._namespace) as tx:
            for driver in moved:
                tx.drivers.put(driver)
            for driver in left_behind:
                tx.drivers.put(_with_its_maker(driver, noted.now))
            if ended:
                tokens.revoke_drivers(tx, ended)
            tx.events.put([_event_of(driver) for driver in moved if self._is_news(driver, noted)])
        for driver in moved:
            if driver.ended:
                write_log = log.info if driver.reason in driver_ends.EXPECTED else log.warning
                write_log("driver ended", driver=driver.id, kind=driver.kind, reason=driver.reason)

    def _is_news(self, driver: Driver, noted: Noted) -> bool:
        if not driver.ended or driver.reason in driver_ends.EXPECTED:
            return False
        # A pool that outlives us still reports, after a restart, ends that it reported before it.
        return driver.id in noted.drivers or not self._is_first_look

    def _ended_before(self, id: str) -> Driver | None:
        """A driver that ended in an earlier pass: a claim that it waited for may have been answered
        since."""
        driver = self._drivers.get(id)
        return driver if driver is not None and driver.ended else None

    # --- attempts that are over ---------------------------------------------------------------------

    def _lost(self, attempt: Attempt, driver: Driver | None, now: float) -> Lost | None:
        """Why an unreported attempt is over; None if it may go on.

        The end of a control plane is never a task's fault, nor is a lease that ran out while no
        control plane was there.
        """
        if driver is None and not self.pool.outlives:
            return Lost("its driver belonged to an earlier control plane", "disrupted")
        if driver is not None and driver.ended:
            return Lost(f"its driver ended: {driver.reason}", _fault(driver))
        called = now if self._hears_since is None else self._hears_since
        # Of before the clock went back
        is_ahead = attempt.lease_until > now + AHEAD * claims.LEASE_S
        lease_until = called if is_ahead else attempt.lease_until
        silent_from = max(lease_until, called + claims.LEASE_S)
        patience_s = 0.0 if driver is None else self._silent_s
        if silent_from + patience_s < now:
            return Lost("its driver fell silent", "crashed")
        return None

    def _rescue(self, attempt: Attempt, driver: Driver | None, lost: Lost) -> None:
        """End an attempt, and adopt its finished results. One that cannot be adopted again and
        again is given up."""
        unit = f"attempt {attempt.id} of {attempt.dataset}"
        end = partial(
            rescue.adopt, self.context, attempt, self.lake, reason=lost.reason, fault=lost.fault
        )
        if self._rescues[attempt.id] >= RESCUE_TRIES:
            end = partial(
                rescue.abandon, self.context, attempt, reason=lost.reason, fault=lost.fault
            )
        if (
            self.failing_units.attempt(unit, partial(self._counted, attempt.id, end), None)
            is not None
        ):
            log.warning(
                "attempt ended", attempt=attempt.id, dataset=attempt.dataset, reason=lost.reason
            )
            self._replace(attempt, driver)

    def _counted(self, attempt: str, end: Callable[[], bool]) -> bool:
        """Faults of the lake or the database end in time; what raises anything else would do so for
        ever."""
        try:
            ended = end()
        except (Deposed, OSError):
            raise
        except Exception:
            self._rescues[attempt] += 1
            raise
        self._rescues.pop(attempt, None)
        return ended

    def _replace(self, attempt: Attempt, driver: Driver | None) -> None:
        """A driver that is there and silent would keep its slot: the pool ends it, and starts
        another one."""
        if driver is None or driver.ended:
            return
        try:
            self.pool.end(driver.id, driver_ends.SILENT)
        except PoolUnavailable as e:
            log.warning(
                "a silent driver cannot be ended",
                driver=driver.id,
                attempt=attempt.id,
                reason=str(e),
            )

    # --- how many -----------------------------------------------------------------------------------

    def _fit(self, share: PoolShare, tasks: int, keeps: Sequence[DriverKeep]) -> None:
        """At first, all present drivers are kept."""
        now, of = self._monotonic(), (share.kind, share.size)
        running = [d.id for d in self._drivers.values() if (d.kind, d.size) == of and not d.ended]
        level = self._levels.get(of, Level(len(running), now))
        needs = replace(share.limits, minimum=0)
        limits = warmest(share.limits if self._namespace == DEFAULT else needs, keeps, tasks)
        level = self._levels[of] = level.after(limits, tasks, now)
        granted = level.count
        if self._fair is not None:
            request = DriverRequest(level.count, needs.worth(tasks), len(running))
            granted = self._fair.granted(self._namespace, share, request)
        self.pool.scale(share.kind, granted, share.size, self._busy)
        if granted < level.count:
            self._drain([id for id in running if id in self._busy], granted)

    def _drain(self, busy: list[str], granted: int) -> None:
        """Drain the drivers beyond the granted number, for another namespace: they finish their
        work, and end."""
        beyond = {id for id in busy[granted:] if id not in self._draining}
        if not beyond:
            return
        with self._store.begin(self._namespace) as tx:
            tokens.drain_drivers(tx, beyond)
        self._draining |= beyond
        log.info(
            "drivers make room for other namespaces", namespace=self._namespace, drivers=len(beyond)
        )


def _event_of(driver: Driver) -> Event:
    body = {
        "driver": driver.id,
        "driver_kind": driver.kind,
        "size": driver.size,
        "reason": driver.reason,
    }
    return Event("driver.ended", "", 1, body | {"fault": driver.fault}, branch=NO_BRANCH)


def _fault(driver: Driver) -> Fault:
    """A task interrupted by a driver shutdown does not consume its retry budget."""
    if driver.reason in (driver_ends.AS_REQUESTED, driver_ends.WITH_ITS_MAKER):
        return "disrupted"
    return driver.fault or "crashed"


def _with_its_maker(driver: Driver, now: float) -> Driver:
    return replace(driver, seen=now, ended=True, reason=driver_ends.WITH_ITS_MAKER)

"""When to do what: one pass lists, plans, settles, rescues, scales; a second thread lets tables follow.

Level-triggered: a pass looks at the world as it is; losing a nudge only delays it. What is decided lies in core,
how it is done in operations.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import partial

from controlplane import logs
from controlplane.core import wire
from controlplane.core.compile.nodes import Desired, Source, is_paused
from controlplane.core.errors import PoolUnavailable
from controlplane.core.model import driver_ends
from controlplane.core.model.drivers import Driver, Fault
from controlplane.core.model.events import Event
from controlplane.core.model.leases import Deposed
from controlplane.core.model.scaling import Level, Share
from controlplane.core.model.states import State
from controlplane.core.model.tasks import Attempt, Size
from controlplane.core.plan import Compute, Learn, Status, worst
from controlplane.operations.context import Context
from controlplane.operations.desired import tokens
from controlplane.operations.planning.apply_plan import Pass, Settling
from controlplane.operations.planning.planner import Planner
from controlplane.operations.planning.snapshot import desired
from controlplane.operations.projections import publish
from controlplane.operations.troubles import Troubles, of_listing
from controlplane.operations.upkeep.collect import Collecting, Forget
from controlplane.operations.upkeep.orphans import sweep
from controlplane.operations.work import attempts as work
from controlplane.operations.work import listings
from controlplane.ports import DriverPool, ObjectStore, Publisher, Store
from controlplane.reconciler.compaction import Packing
from controlplane.reconciler.wake import Ends, Wake
from dataplane.contract import DRIVER_KINDS, WORKER_KINDS, Kind

IDLE_S = 10.0  # the longest wait between passes while nothing happens
BUSY_S = 1.0
SILENT_S = 60.0  # a driver that is alive but has not been heard of for so long loses its attempts
WINDOW = 20_000  # tasks that are asked for at a time of one dataset
LONGEST_REASON = 4_000  # characters of what is told of a table that cannot follow
RESCUE_TRIES = 3  # after which what an attempt finished is computed anew
PUBLISH_TRIES = 3  # after which a run ends without the table; a service goes on trying
log = logs.get("reconciler")


@dataclass(frozen=True, slots=True)
class Progress:
    """Where a pass stands, for progress bars: tasks under way and how many of each state the datasets are in."""

    under_way: int
    states: dict[str, Status]
    publishing: int


@dataclass(frozen=True, slots=True)
class Lost:
    """Why an attempt is over without a report, and what its tasks have to do with it."""

    reason: str
    fault: Fault


class Reconciler:
    """The loop over one branch of one namespace. With `flows`, only these dataflows and their upstream are touched,
    and nothing is listed unless somebody asks for it."""

    def __init__(
        self,
        store: Store,
        lake: ObjectStore,
        publisher: Publisher,
        pool: DriverPool,
        wake: Wake,
        *,
        namespace: str = "default",
        branch: str = "main",
        flows: frozenset[str] | None = None,
        on_progress: Callable[[Progress], None] | None = None,
        packages: Forget | None = None,
        troubles: Troubles | None = None,
        silent_s: float = SILENT_S,
    ) -> None:
        self.troubles = troubles or Troubles()
        self.store, self.lake, self.publisher, self.pool, self.wake = store, lake, publisher, pool, wake
        self.namespace, self.branch, self.flows = namespace, branch, flows
        self.on_progress = on_progress
        self.last: Pass | None = None
        self._planner = Planner(store, namespace, branch, flows=flows, window=WINDOW)
        since = self._newest_trace()
        self._settling = Settling(store, self._planner, namespace, branch, since_trace=since, troubles=self.troubles)
        self._levels: dict[tuple[str, Size], Level] = {}  # by kind and size
        self._known_drivers: dict[str, Driver] = {}
        self._busy: frozenset[str] = frozenset()  # drivers that have attempts
        self._first = True
        self._rescues: Counter[str] = Counter()  # by attempt: how often it could not be rescued
        self._told: Desired | None = None  # what was looked at for dataflows that do not compile
        self._silent_s = silent_s
        self._hears_since: float | None = None  # drivers could not be heard before, whatever their leases say
        self._was_looking = False  # somebody looked at sources when the last pass began
        self._idle_s = IDLE_S  # until the next listing is due
        self._publishing = _Publishing(self)
        self._collecting = Collecting(store, namespace, lake, packages)
        self._packing = Packing(store, namespace, branch, self._publishing.look_again)

    def _newest_trace(self) -> int:
        with self.store.read(self.namespace) as tx:
            return tx.last_trace()

    @property
    def context(self) -> Context:
        return Context(self.store, self.namespace, "reconciler", "", self.wake.notify)

    # --- running ----------------------------------------------------------------------------------

    def run(self, stop: Ends) -> None:
        """Serve until `stop`, or somebody else leads: faults are logged and the next pass tries again."""
        while not stop.is_set():
            seen = self.wake.count
            try:
                self.troubles.pass_began()
                changed = self.tick()
                self._packed(is_idle=not changed)
                self.troubles.attempt("collection", lambda: _collect(self._collecting), None)
                self.troubles.pass_succeeded()
            except Deposed as e:
                log.warning("deposed", reason=str(e))
                self.troubles.pass_succeeded()  # a later term is another one
                return
            except Exception as e:  # the next pass tries again; /readyz tells if none succeeds
                log.exception("pass failed", error=str(e))
                self.troubles.pass_failed(e)
                changed = False
            if not changed:
                self.wake.wait(BUSY_S if self.last and self.last.under_way else self._until_due(), seen)

    def settle(self, stop: Ends, again: Callable[[], bool] = lambda: False) -> Status:
        """Pass until nothing is left, or nothing can go on, and collect if it is time; the worst state in scope.

        `again` is asked then: True says that it has found more to do.
        """
        while not stop.is_set():
            seen = self.wake.count
            if not self.tick() and self._is_over() and not again() and not self._packed(is_idle=True):
                break
            self.wake.wait(BUSY_S, seen)
        if not stop.is_set():
            self.troubles.attempt("collection", lambda: _collect(self._collecting), None)
        return worst(d.status for d in self.last.plan.decisions) if self.last else "up_to_date"

    def _packed(self, *, is_idle: bool) -> bool:
        return self.troubles.attempt("compaction", lambda: self._pack(is_idle=is_idle), False)

    def _pack(self, *, is_idle: bool) -> bool:
        """Where nothing else is to be done; True while packs are being made. No Spark is started for it by a run."""
        wanted = any(kind == "driver" and level.kept for (kind, _), level in self._levels.items())
        may_start = self.flows is None or wanted
        observed = self._planner.observed()
        if not is_idle or not may_start or observed is None or self.last is None or self.last.under_way:
            return False
        is_open = self._packing.step(self._states(), observed[0].nodes, time.monotonic())
        if is_open:
            self.wake.notify()  # claims wait for new tasks
        else:
            self._publishing.nudge(self._states())
        return is_open or self._publishing.can_go_on()

    def _is_over(self) -> bool:
        assert self.last is not None
        if self.last.under_way or self._was_looking:  # what was found during the pass is not planned yet
            return False
        return not self._listing_open() and not self._publishing.can_go_on()

    def close(self) -> None:
        """Stop publishing, and note that the drivers of this pool, closed before, ended with it."""
        self._publishing.close()
        if self.pool.outlives:
            return
        with suppress(Deposed), self.store.begin(self.namespace) as tx:
            for driver in tx.drivers():
                if driver.id in self._known_drivers:
                    tx.put_driver(_ended(driver))

    # --- one pass ---------------------------------------------------------------------------------

    def tick(self) -> bool:
        """One pass; True if it changed anything that may allow more."""
        self._was_looking = False
        self._look_after_drivers()
        nodes, _ = self._wished()
        listed = self._list()  # first: a worker is at work while we plan
        self.last = self._settling.settle()
        if self._wished()[0] is not nodes:
            listed += self._list()
        self._tell_broken(self._wished()[0])
        self._scale()
        self._publishing.nudge(self._states())
        self._report()
        if self.last.changed:
            self.wake.notify()  # claims wait for new tasks
        return bool(listed or self.last.changed)

    def _tell_broken(self, nodes: Desired) -> None:
        """Log what does not compile, once."""
        if nodes is not self._told:
            self._told = nodes
            for flow, reason in nodes.left_out.items():
                log.error("a stored dataflow does not compile and is left out", dataflow=flow, reason=reason)

    def _report(self) -> None:
        if self.on_progress is not None and self.last is not None:
            states = {d.dataset: d.status for d in self.last.plan.decisions}
            self.on_progress(Progress(self.last.under_way, states, self._publishing.count))

    def _sources(self) -> list[Source]:
        """Read components in scope that nobody paused, as of the last pass."""
        nodes, paused = self._wished()
        scope = nodes.nodes if self.flows is None else nodes.scope(self.flows)
        reads = listings.sources(nodes, scope)
        return [n for n in reads if not is_paused(n, paused)]

    def _wished(self) -> tuple[Desired, frozenset[str]]:
        """All nodes, and what is paused."""
        observed = self._planner.observed()
        if observed is not None:
            nodes, known = observed
            return nodes, known.paused
        with self.store.read(self.namespace) as tx:
            return desired(tx, self.branch, namespace=self.namespace), tx.paused(self.branch)

    def _states(self) -> list[State]:
        """Of datasets in scope."""
        observed = self._planner.observed()
        if observed is None:
            return []
        desired, known = observed
        scope = desired.nodes if self.flows is None else desired.scope(self.flows)
        return [state for name, state in known.states.items() if name in scope]

    def _list(self) -> int:
        """Request the listings that are due and queue those that are open."""
        reads = self._sources()
        if not reads:
            return 0
        with self.store.read(self.namespace) as tx:
            known, now = tx.listings(n.listing for n in reads), tx.now()
            waiting = listings.to_queue(tx, self.branch, reads, known)  # without the lock that writing takes
        periodic = self.flows is None
        held = self._in_hand(reads)
        free = [n for n in reads if n.listing not in held]
        due = [n for n in free if listings.is_due(n, known.get(n.listing), now, periodic=periodic)]
        self._idle_s = min((listings.due_in(n, known.get(n.listing), now) for n in reads), default=IDLE_S)
        is_open = any(listings.is_open(known.get(n.listing)) for n in reads)
        self._was_looking = bool(due or is_open)
        if not due and not waiting:
            return 0
        listed = self._dispatch(due, reads)
        if listed:
            self.wake.notify()  # a worker waits for it
        return listed

    def _dispatch(self, due: Sequence[Source], reads: Sequence[Source]) -> int:
        """Queue listings in one transaction; where that fails, those of each dataset in its own."""
        try:
            return self._dispatched(due, reads)
        except (Deposed, OSError):
            raise
        except Exception as e:  # noqa: BLE001  # told below, with the dataset that it is about
            log.warning("listings are queued one by one", reason=str(e))
        listed = 0
        for node in reads:
            mine = [node] if node in due else []
            queue = partial(self._dispatched, mine, [node])
            listed += self.troubles.attempt(of_listing(node.dataset), queue, 0)
        return listed

    def _dispatched(self, due: Sequence[Source], reads: Sequence[Source]) -> int:
        with self.store.begin(self.namespace) as tx:
            listings.request(tx, due)
            return listings.dispatch(tx, self.branch, reads)

    def _in_hand(self, reads: Iterable[Source]) -> set[bytes]:
        """Growing listings of which a reader computes what is there, as of the last pass, and nothing of it has failed.
        If they grew on meanwhile it would never be whole: a stream whose slices take longer than the time from look to
        look would be published when it ends."""
        growing = {n.dataset: n.listing for n in reads if n.read.is_growing}
        planned = [d for d in self.last.plan.decisions if d.dataset in growing] if self.last and growing else []
        return {growing[d.dataset] for d in planned if d.error is None and isinstance(d.step, Compute | Learn)}

    def _until_due(self) -> float:
        return min(max(self._idle_s, BUSY_S), IDLE_S)

    def _listing_open(self) -> bool:
        reads = self._sources()
        with self.store.read(self.namespace) as tx:
            return any(map(listings.is_open, tx.listings(n.listing for n in reads).values()))

    # --- drivers ----------------------------------------------------------------------------------

    def _look_after_drivers(self) -> None:
        """Record what the pool says, and end the attempts of those who are gone or silent."""
        try:
            present = {d.id: d for d in self.pool.poll()}
        except PoolUnavailable as e:
            log.warning("the pool cannot be looked at", reason=str(e))
            return
        attempts, stored, now = self._noted()
        if not self._first:  # ends are told once, perhaps in a pass that failed before they were kept
            missing = {id: replace(d, seen=now, ended=True, reason=driver_ends.GONE) for id, d in stored.items()}
            present = missing | present
        moved = [d for d in present.values() if self._known_drivers.get(d.id) != d]
        self._busy = frozenset(attempt.driver for attempt in attempts.values())
        gone = [d for d in stored.values() if d.id not in present] if self._first else []
        if moved or gone:
            with self.store.begin(self.namespace) as tx:
                for driver in moved:
                    tx.put_driver(driver)
                for driver in gone:
                    tx.put_driver(_ended(driver))
                if ended := {d.id for d in moved if d.ended} | {d.id for d in gone}:
                    tokens.revoke_drivers(tx, ended)
                tx.put_events([_told(d) for d in moved if d.id in stored or not self._first if _is_remarkable(d)])
        self._known_drivers.update(present)
        for driver in moved:
            if driver.ended:
                log.warning("driver ended", driver=driver.id, kind=driver.kind, reason=driver.reason)
        for attempt in attempts.values():
            its = present.get(attempt.driver) or self._gone(attempt.driver)
            if lost := self._lost(attempt, its, now):
                self._rescue(attempt, its, lost)
        if self._first and (gone or attempts):  # the last process here did not end in order
            self.troubles.attempt("orphans", lambda: sweep(self.store, self.namespace, self.lake), None)
        self._first = False

    def _rescue(self, attempt: Attempt, driver: Driver | None, lost: Lost) -> None:
        """End an attempt, and adopt what it finished. One that cannot be adopted again and again is given up."""
        unit = f"attempt {attempt.id} of {attempt.dataset}"
        end = partial(work.adopt, self.context, attempt, self.lake, reason=lost.reason, fault=lost.fault)
        if self._rescues[attempt.id] >= RESCUE_TRIES:
            end = partial(work.abandon, self.context, attempt, reason=lost.reason, fault=lost.fault)
        if self.troubles.attempt(unit, partial(self._counted, attempt.id, end), None) is not None:
            log.warning("attempt ended", attempt=attempt.id, dataset=attempt.dataset, reason=lost.reason)
            self._replace(attempt, driver)

    def _counted(self, attempt: str, end: Callable[[], bool]) -> bool:
        """Faults of the lake or the database end in time; what raises anything else would do so for ever."""
        try:
            ended = end()
        except (Deposed, OSError):
            raise
        except Exception:
            self._rescues[attempt] += 1
            raise
        self._rescues.pop(attempt, None)
        return ended

    def _gone(self, id: str) -> Driver | None:
        """A driver that ended in an earlier pass: a claim that it waited for may have been answered since."""
        driver = self._known_drivers.get(id)
        return driver if driver is not None and driver.ended else None

    def _noted(self) -> tuple[dict[str, Attempt], dict[str, Driver], float]:
        """Attempts and drivers as the database has them, and its time. While it is away, no driver can be heard."""
        try:
            with self.store.read(self.namespace) as tx:
                found = tx.attempts(), {d.id: d for d in tx.drivers()}, tx.now()
        except OSError:
            self._hears_since = None
            raise
        if self._hears_since is None:
            self._hears_since = found[2]
        return found

    def _lost(self, attempt: Attempt, driver: Driver | None, now: float) -> Lost | None:
        """Why an attempt is over although nobody reported it; None if it may go on.

        The end of a control plane is not the doing of any task, nor is a lease that ran out while none was there.
        """
        if driver is None and not self.pool.outlives:
            return Lost("its driver belonged to an earlier control plane", "disrupted")
        if driver is not None and driver.ended:
            return Lost(f"its driver ended: {driver.reason}", _fault(driver))
        began = now if self._hears_since is None else self._hears_since
        silent_from = max(attempt.lease_until, began + work.LEASE_S)
        if silent_from + (self._silent_s if driver else 0.0) < now:
            return Lost("its driver fell silent", "crashed")
        return None

    def _replace(self, attempt: Attempt, driver: Driver | None) -> None:
        """A driver that is there and silent would keep its slot: the pool ends it, and starts another one."""
        if driver is None or driver.ended:
            return
        try:
            self.pool.end(driver.id, driver_ends.SILENT)
        except PoolUnavailable as e:
            log.warning("a silent driver cannot be ended", driver=driver.id, attempt=attempt.id, reason=str(e))

    def _scale(self) -> None:
        """As many workers and drivers as what waits and runs is worth."""
        with self.store.read(self.namespace) as tx:
            backlog = {share.serves: tx.backlog(share.serves) for share in self.pool.shares}
        for share in self.pool.shares:
            fit = partial(self._fit, share, backlog[share.serves])
            self.troubles.attempt(f"pool of {share.kind} {share.size}", fit, None)

    def _fit(self, share: Share, backlog: Mapping[Kind, int]) -> None:
        """At first as many are kept as there are."""
        now, of = time.monotonic(), (share.kind, share.size)
        tasks = sum(backlog.get(kind, 0) for kind in (WORKER_KINDS if share.kind == "worker" else DRIVER_KINDS))
        running = sum((d.kind, d.size) == of and not d.ended for d in self._known_drivers.values())
        self._levels[of] = self._levels.get(of, Level(running, now)).after(share.limits, tasks, now)
        self.pool.scale(share.kind, self._levels[of].kept, share.size, self._busy)


def _is_remarkable(driver: Driver) -> bool:
    return driver.ended and driver.reason not in driver_ends.UNREMARKABLE


def _told(driver: Driver) -> Event:
    body = {"driver": driver.id, "kind": driver.kind, "size": driver.size, "reason": driver.reason}
    return Event("driver.ended", "", 1, body | {"fault": driver.fault})


def _fault(driver: Driver) -> Fault:
    """That somebody was asked to end, and its task was not over in time, is no doing of the task."""
    if driver.reason in (driver_ends.AS_ASKED, driver_ends.WITH_ITS_MAKER):
        return "disrupted"
    return driver.fault or "crashed"


def _collect(collecting: Collecting) -> None:
    """If it is time."""
    if collected := collecting.step(time.monotonic()):
        log.info("collected", **asdict(collected))


def _ended(driver: Driver) -> Driver:
    return replace(driver, ended=True, reason=driver_ends.WITH_ITS_MAKER)


class _Publishing:
    """A thread that lets tables follow states, apart from the loop: a slow log delays no computation."""

    def __init__(self, loop: Reconciler) -> None:
        self._loop = loop
        self._wake = Wake()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._failures: dict[str, tuple[int, float]] = {}  # dataset -> failures in a row, time of the next try
        self._waiting: dict[str, State] = {}  # not known to be followed yet
        self._done: dict[str, int] = {}  # dataset -> seq of the state that its table holds
        self.count = 0

    def nudge(self, states: Iterable[State]) -> None:
        """`states`: the newest of each dataset in scope."""
        waiting = [s for s in states if self._done.get(s.dataset) != s.seq]
        self._waiting = {s.dataset: s for s in waiting}
        if self._thread is None and waiting and not self._stop.is_set() and self._behind():
            self._thread = threading.Thread(target=self._run, name="publishing", daemon=True)
            self._thread.start()
        self._wake.notify()

    def _behind(self) -> tuple[State, ...]:
        """States whose table has to follow; what is found done is not looked at again."""
        loop, waiting = self._loop, dict(self._waiting)
        found = publish.behind(loop.store, loop.namespace, loop.branch, waiting.values())
        late = {s.dataset for s in found}
        self._done.update((s.dataset, s.seq) for s in waiting.values() if s.dataset not in late)
        return found

    def look_again(self) -> None:
        """At all tables: some may not be as they were left."""
        self._done.clear()

    def can_go_on(self) -> bool:
        """Some table is behind and has not failed again and again."""
        return any(self._failures.get(s.dataset, (0, 0.0))[0] < PUBLISH_TRIES for s in self._behind())

    def _run(self) -> None:
        while not self._stop.is_set():
            seen = self._wake.count
            try:
                done = self._round()
            except Deposed:
                return  # the loop is told the same
            except BaseException as e:  # the thread must not end unseen: no table would follow any more
                log.exception("publishing failed", error=str(e))
                done = 0
            if done:
                self._loop.wake.notify()
            else:
                self._wake.wait(BUSY_S if self._failures else BUSY_S * 30, seen)

    def _round(self) -> int:
        loop, done, now = self._loop, 0, time.monotonic()
        states = self._behind()
        self.count = len(states)
        for state in states:
            failures, not_before = self._failures.get(state.dataset, (0, 0.0))
            if self._stop.is_set() or not_before > now:
                continue
            try:
                publish.publish(loop.store, loop.namespace, state, loop.publisher)
                self._failures.pop(state.dataset, None)
                done += 1
                self.count -= 1
            except Deposed:
                raise
            except Exception as e:  # noqa: BLE001  # whatever it is, it is this table's alone
                self._failures[state.dataset] = (failures + 1, now + BUSY_S * 2 ** min(failures, 8))
                log.warning("publishing failed", dataset=state.dataset, error=str(e))
                publish.note_failure(loop.store, loop.namespace, state, wire.printable(str(e))[:LONGEST_REASON])
        return done

    def close(self) -> None:
        self._stop.set()
        self._wake.notify()
        if self._thread is not None:
            self._thread.join()

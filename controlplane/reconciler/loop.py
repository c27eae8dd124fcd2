"""When to do what: a pass looks after the fleet, lists, plans, settles; tables follow beside it.

Level-triggered: a pass looks at the world as it is; losing a nudge only delays it. Decisions are
made in core and carried out in operations.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial

from controlplane import logs
from controlplane.core.compile.nodes import Desired, Source, is_paused
from controlplane.core.model.alerts import Channel
from controlplane.core.model.branches import MAIN
from controlplane.core.model.leases import Deposed
from controlplane.core.model.scaling import USUAL_KEEP, DriverKeep
from controlplane.core.model.states import State
from controlplane.core.model.tasks import Size
from controlplane.core.plan import Compute, Decision, Learn, Status, worst
from controlplane.core.plan.plan_values import INTERNAL
from controlplane.core.tree import NodeCache
from controlplane.operations.alerts.watch import Watch
from controlplane.operations.failing_units import STUCK_AFTER, of_feed, of_listing, units_of
from controlplane.operations.feeds.follow import follow
from controlplane.operations.inspect.run_progress import MOVING
from controlplane.operations.planning.apply_plan import PlanExecutor
from controlplane.operations.planning.planner import Planner
from controlplane.operations.planning.snapshot import desired
from controlplane.operations.upkeep.collect import Collecting, Forget
from controlplane.operations.work import listings, long_polls
from controlplane.ports.lake import Publisher
from controlplane.ports.store import Store, Tx
from controlplane.reconciler.branching import Branching, Done
from controlplane.reconciler.fleet import NO_KEEPS, Fleet
from controlplane.reconciler.packing import Packing
from controlplane.reconciler.publishing import Publishing
from controlplane.reconciler.rolling_up import RollingUp
from controlplane.reconciler.wake import Ends, WakeCounter, no_pass

IDLE_S = 10.0  # the longest wait between passes while nothing happens
BUSY_S = 1.0
LISTING_GAP_S = 0.25  # listings that become due within it are queued by one pass
STREAM_GAP_S = 0.02  # of continuous sources
WINDOW = 20_000  # tasks that are asked for at a time of one dataset
log = logs.get("reconciler")


@dataclass(frozen=True, slots=True)
class Progress:
    """Where a pass stands, for progress bars: tasks under way, the state of each dataset, and how
    many tasks it still needs, where it needs some. `spark_starting_s`: for how long Spark has been
    starting."""

    under_way: int
    states: dict[str, Status]
    tasks_left: dict[str, int]
    publishing: int
    spark_starting_s: float | None


@dataclass(frozen=True, slots=True)
class TickOutcome:
    """The result of one pass. `decisions`: on all datasets in scope of the loop's branch.

    `changed`: something that may allow more, so the next pass follows at once. Otherwise it follows
    after a nudge, and after `again_after_s` at the latest. `under_way`: tasks. `is_listing`:
    listings were due or open when the pass began; the results of those that ended meanwhile are not
    planned yet.
    """

    decisions: Sequence[Decision] = ()
    changed: bool = False
    under_way: int = 0
    is_listing: bool = False
    again_after_s: float = IDLE_S


@dataclass(frozen=True, slots=True)
class _ListingStep:
    """`again_after_s`: when to look for due ones again; `streams_after_s`: of continuous sources."""

    is_open: bool = False
    again_after_s: float = IDLE_S
    streams_after_s: float = IDLE_S


class Reconciler:
    """The loop over one namespace: main, and the branches beside it. With `flows`, only these
    dataflows of `branch` and their upstream are touched, and nothing is listed without a
    request."""

    def __init__(
        self,
        store: Store,
        fleet: Fleet,
        publisher: Publisher,
        wake: WakeCounter,
        *,
        namespace: str = "default",
        branch: str = "main",
        flows: frozenset[str] | None = None,
        on_progress: Callable[[Progress], None] | None = None,
        packages: Forget | None = None,
        notify: tuple[Channel, ...] = (),
        cache: NodeCache | None = None,
        wake_of: Callable[[str], None] = lambda _: None,
    ) -> None:
        """`fleet` is looked after and scaled in each pass. `notify`: channels of the installation.
        `cache`: tree nodes of the namespace. `wake_of` nudges the loop of another namespace."""
        self.failing_units = fleet.failing_units
        self.store, self.fleet, self.wake = store, fleet, wake
        self._passing = threading.Lock()  # held by the loop, but while it waits
        self.namespace, self.branch, self.flows = namespace, branch, flows
        self._wake_of = wake_of
        # What feeds offer, as of the last pass: the newest state of each dataset
        self._moved: dict[str, int] = {}
        self._notices = 0  # to claims that wait, in the last pass: none is news to the loop itself
        self.on_progress = on_progress
        self._planned: Sequence[Decision] = ()  # decisions on main, as of the last pass
        self._planner = Planner(
            store,
            namespace,
            MAIN,
            flows=flows if branch == MAIN else None,
            window=WINDOW,
            cache=cache,
        )
        since = self._newest_trace()
        self._settling = PlanExecutor(
            store,
            self._planner,
            namespace,
            MAIN,
            since_trace=since,
            failing_units=self.failing_units,
        )
        self._branching = Branching(
            store,
            namespace,
            self._planner,
            self.failing_units,
            window=WINDOW,
            since_trace=since,
            flows=flows,
            only=None if flows is None else [branch],
        )
        if branch != MAIN:  # work in main is limited to the inputs of the branch
            self._planner.plan()
            self._branching.look()
        # Datasets that could not be planned, at the last plan from scratch
        self._broken: set[str] = set()
        # The one last checked for dataflows that do not compile
        self._reported: Desired | None = None
        self._publishing = Publishing(store, namespace, publisher, fleet.lake, wake.notify)
        self._collecting = Collecting(store, namespace, fleet.lake, packages)
        self._watch = Watch(fleet.context, MAIN, self._planner, notify)
        self._rolling_up = RollingUp(store, namespace)
        self._packing = Packing(store, namespace, MAIN, self._publishing.look_again, wake.notify)

    def _newest_trace(self) -> int:
        with self.store.read(self.namespace) as tx:
            return tx.traces.last()

    # --- running ----------------------------------------------------------------------------------

    def run(self, stop: Ends) -> None:
        """Serve until `stop`, or another process leads: faults are logged and the next pass tries
        again."""
        with self._passes():
            self._run(stop)

    def _run(self, stop: Ends) -> None:
        outcome = TickOutcome()
        while not stop.is_set():
            count = self.wake.count
            try:
                self.failing_units.pass_began()
                outcome = self.tick()
                if self._rolled_up():
                    outcome = replace(outcome, changed=True)
                self._packed(outcome)
                self.failing_units.attempt("collection", lambda: _collect(self._collecting), None)
                self.failing_units.pass_succeeded()
            except Deposed as e:
                log.warning("deposed", reason=str(e))
                self.failing_units.pass_succeeded()  # a later term is another one
                return
            except Exception as e:  # the next pass tries again; /readyz shows if none succeeds
                log.exception("pass failed", error=str(e))
                self.failing_units.pass_failed(e)
                outcome = replace(outcome, changed=False)
            if not outcome.changed:
                self._wait(outcome.again_after_s, count)

    @contextmanager
    def _passes(self) -> Iterator[None]:
        """Passes are this thread's; and, while it waits, those of reports."""
        with self._passing:
            if self.branch == MAIN:
                self.wake.make_pass = self._pass_of_report
            try:
                yield
            finally:
                if self._makes_passes:
                    self.wake.make_pass = no_pass

    @property
    def _makes_passes(self) -> bool:
        """Whether passes of reports are this loop's. A request may know an earlier loop."""
        return self.wake.make_pass == self._pass_of_report

    def _wait(self, timeout_s: float, count: int) -> None:
        self._passing.release()
        try:
            self.wake.wait(timeout_s, count + self._notices)
        finally:
            self._passing.acquire()

    def _pass_of_report(self) -> bool:
        """Commit what a report completed, and request what follows, in the report's thread. True if
        tasks are under way and nothing else has changed. A fault is left to the loop's next pass,
        which meets it."""
        if not self._passing.acquire(blocking=False):
            return False
        try:
            if not self._planner.is_current or not self._makes_passes:
                return False
            settled = self._settling.settle()
            self._planned = settled.plan.decisions
            is_all = not self._planner.branches  # those of branches follow in the loop
            return is_all and not settled.changed and settled.under_way > 0
        except Exception as e:  # noqa: BLE001  # the report itself is taken in
            log.info("a pass is left to the loop", reason=str(e))
            return False
        finally:
            self._passing.release()

    def settle(self, stop: Ends, again: Callable[[], bool] = lambda: False) -> Status:
        """Pass until nothing is left, or nothing can go on, and collect if it is time; the worst
        state in scope.

        `again` is called then: True says that it has found more to do.
        """
        with self._passes():
            return self._settle(stop, again)

    def _settle(self, stop: Ends, again: Callable[[], bool]) -> Status:
        outcome = TickOutcome(self._decisions())
        while not stop.is_set():
            count = self.wake.count
            outcome = self.tick()
            if outcome.changed:
                continue
            is_at_rest = self._is_over(outcome) and not self._plans_again(outcome)
            if is_at_rest and self._rolled_up():
                continue
            if is_at_rest and not again() and not self._packed(outcome):
                break
            self._wait(BUSY_S, count)
        if not stop.is_set():
            self.failing_units.attempt("collection", lambda: _collect(self._collecting), None)
        return worst(outcome.decisions)

    def _plans_again(self, outcome: TickOutcome) -> bool:
        """What others have computed may be adopted where a damaged node kept a dataset from being
        planned: nothing of that dataset has changed, so it is not decided again by itself. True if
        a plan from scratch is due."""
        broken = {
            d.dataset for d in outcome.decisions if d.error and d.error["condition"] == INTERNAL
        }
        if broken <= self._broken:
            return False
        self._broken = broken
        self._planner.forget()
        return True

    def _decisions(self) -> Sequence[Decision]:
        """The decisions of this loop's branch, as of the last pass."""
        return self._planned if self.branch == MAIN else self._branching.decisions(self.branch)

    def _rolled_up(self) -> bool:
        """Whether slices were rolled up, which the next pass follows."""
        return self.branch == MAIN and self.failing_units.attempt(
            "roll-up", lambda: self._rolling_up.step(time.monotonic()), False
        )

    def _packed(self, outcome: TickOutcome) -> bool:
        return self.failing_units.attempt("compaction", lambda: self._pack(outcome), False)

    def _pack(self, outcome: TickOutcome) -> bool:
        """Where nothing else is to be done; True while packs are being made. No Spark is started
        for it by a run."""
        may_start = self.flows is None or self.fleet.has_warm_drivers
        observed = self._planner.observed()
        if outcome.changed or outcome.under_way or not may_start or observed is None:
            return False
        is_open = self._packing.step(self._states(), observed[0].nodes, time.monotonic())
        if not is_open:
            self._publishing.nudge(self._tables())
        return is_open or self._publishing.can_go_on()

    def _is_over(self, outcome: TickOutcome) -> bool:
        if outcome.under_way or outcome.is_listing:
            return False
        if self._watch.is_under_way or self._has_passing_failure(outcome):
            return False
        return not self._listing_open() and not self._publishing.can_go_on()

    def _has_passing_failure(self, outcome: TickOutcome) -> bool:
        """A dataset failed to be carried out, and not often enough to be shown as failed: it is
        tried again first."""
        if not (failing := self.failing_units.units):
            return False
        moving = [d.dataset for d in outcome.decisions if d.status in MOVING]
        failures = [
            failing[unit].failures for name in moving for unit in units_of(name) if unit in failing
        ]
        return any(count < STUCK_AFTER for count in failures)

    def close(self) -> None:
        """Stop publishing, and note that the drivers of a pool that was closed before ended with
        it."""
        self._publishing.close()
        self.fleet.close()

    # --- one pass ---------------------------------------------------------------------------------

    def tick(self) -> TickOutcome:
        """One pass."""
        self._notices = 0
        self.fleet.look_after()
        nodes, paused = self._wished()
        listed = self._sources()
        listing = self._list()  # first: a worker is at work while we plan
        settled = self._settled()
        if settled.changed:
            self.wake.notify()  # claims wait for new tasks
        followed = self._followed()  # the reads of branches are known once these are planned
        nodes_now, paused_now = self._wished()
        if nodes_now is not nodes or paused_now != paused:
            self._withdraw(listed)
            listing = self._list()
        self._report_broken(self._wished()[0])
        alerted = self.failing_units.attempt("alerts", self._watch.step, False)
        self.fleet.scale(self._keeps())
        self._publishing.nudge(self._tables())
        decisions = self._decisions()
        wait_s = BUSY_S if settled.under_way else listing.again_after_s
        self._report(decisions, settled.under_way)
        if alerted:
            self.wake.notify()  # a worker waits for it
        self._notify_readers()
        return TickOutcome(
            decisions,
            changed=bool(followed or settled.changed or alerted),
            under_way=settled.under_way,
            is_listing=listing.is_open,
            again_after_s=min(wait_s, listing.streams_after_s),
        )

    def _settled(self) -> Done:
        """Main first: branches read its datasets, and their work comes after its own."""
        if self.branch != MAIN:
            self._planner.only = self._branching.shared_by(self.branch)
        main = self._settling.settle()
        branches = self._branching.settle()
        self._planned = main.plan.decisions
        return Done(main.changed + branches.changed, main.under_way + branches.under_way)

    def _report_broken(self, nodes: Desired) -> None:
        """Log what does not compile, once."""
        if nodes is not self._reported:
            self._reported = nodes
            for flow, reason in nodes.left_out.items():
                log.error(
                    "a stored dataflow does not compile and is left out",
                    dataflow=flow,
                    reason=reason,
                )

    def _report(self, decisions: Sequence[Decision], under_way: int) -> None:
        if self.on_progress is not None:
            states = {d.dataset: d.status for d in decisions}
            tasks_left = {d.dataset: d.tasks_left for d in decisions if d.tasks_left}
            starting_s = self.fleet.spark_starting_s
            publishing = self._publishing.count
            self.on_progress(Progress(under_way, states, tasks_left, publishing, starting_s))

    def _sources(self) -> list[Source]:
        """Read components in scope that are not paused, as of the last pass."""
        nodes, paused = self._wished()
        reads = listings.sources(nodes, self._scope(nodes))
        return [n for n in reads if not is_paused(n, paused)]

    def _scope(self, nodes: Desired) -> Collection[str]:
        """Datasets of main that this loop is about."""
        if self.branch != MAIN:
            return self._branching.shared_by(self.branch) & nodes.nodes.keys()
        return nodes.nodes if self.flows is None else nodes.scope(self.flows)

    def _wished(self) -> tuple[Desired, frozenset[str]]:
        """All nodes, and those that are paused."""
        observed = self._planner.observed()
        if observed is not None:
            nodes, facts = observed
            return nodes, facts.paused
        with self.store.read(self.namespace) as tx:
            return desired(tx, MAIN, namespace=self.namespace), tx.blueprints.paused(MAIN)

    def _keeps(self) -> Mapping[Size, Sequence[DriverKeep]]:
        """How long the drivers of live dataflows stay, by the sizes of their tasks. A `run` ends
        its drivers itself."""
        if self.flows is not None:
            return NO_KEEPS
        nodes, paused = self._wished()
        # Nearly always. Each pass asks, and there may be ten thousand components
        if all(text.blueprint.drivers == USUAL_KEEP for text in nodes.texts.values()):
            return NO_KEEPS
        live: dict[str, set[Size]] = {}
        for node in nodes.nodes.values():
            if node.has_rows and not is_paused(node, paused):
                live.setdefault(node.dataset.partition(".")[0], set()).add(node.component.resources)
        keeps: dict[Size, list[DriverKeep]] = {}
        for flow, sizes in live.items():
            for size in sizes:
                keeps.setdefault(size, []).append(nodes.texts[flow].blueprint.drivers)
        return keeps

    def _tables(self) -> list[State]:
        """What tables are to hold: main's, and those of branches that publish."""
        return [*self._states(), *self._branching.published()]

    def _states(self) -> list[State]:
        """The states of main's datasets in scope."""
        observed = self._planner.observed()
        if observed is None:
            return []
        desired, facts = observed
        scope = self._scope(desired)
        return [state for name, state in facts.states.items() if name in scope]

    def _list(self) -> _ListingStep:
        """Request the listings that are due and queue those that are open."""
        by_branch = self._read_in_branches()
        reads = [node for some in by_branch.values() for node in some]
        if not reads:
            return _ListingStep()
        with self.store.read(self.namespace) as tx:
            current, now = tx.listings.get(n.listing for n in reads), tx.now()
            # Without the lock that writing takes.
            waiting = [
                listing_task
                for b, some in by_branch.items()
                for listing_task in listings.to_queue(tx, b, some, current)
            ]
        periodic = self.flows is None
        held = self._in_hand(reads)
        free = [n for n in reads if n.listing not in held]
        due = [
            n for n in free if listings.is_due(n, current.get(n.listing), now, periodic=periodic)
        ]
        requested = {n.listing for n in due} | {
            id for id, listing in current.items() if listings.is_open(listing)
        }
        if (due or waiting) and self._dispatch(due, by_branch):
            self._notices += 1
            self.wake.notify()  # a worker waits for it
        due_in_s = {
            n.dataset: listings.next_due_in(n, current.get(n.listing), now, requested) for n in free
        }
        streams_s = [due_in_s[n.dataset] for n in free if n.read.within_s is not None]
        return _ListingStep(
            bool(requested),
            _between(LISTING_GAP_S, min(due_in_s.values(), default=IDLE_S)),
            _between(STREAM_GAP_S, min(streams_s, default=IDLE_S)),
        )

    def _followed(self) -> int:
        """Steps towards what feeds offer by now."""
        steps = 0
        for branch, some in self._feeds().items():
            for node in some:
                step = partial(follow, self.store, self.fleet.lake, self.namespace, branch, node)
                steps += self.failing_units.attempt(of_feed(node.dataset), step, 0)
        return steps

    def _feeds(self) -> Mapping[str, Sequence[Source]]:
        """Unpaused read components of feeds, by branch: main's, and those that branches
        override."""
        nodes, paused = self._wished()
        there = (nodes.nodes[dataset] for dataset in self._scope(nodes))
        mains = [n for n in there if n.feed is not None and not is_paused(n, paused)]
        own = {
            b: [n for n in some if n.feed is not None]
            for b, some in self._branching.sources().items()
        }
        return {MAIN: mains, **own}

    def _notify_readers(self) -> None:
        """Namespaces that may read feeds of this one look at them now, if any has moved since the
        last pass."""
        with self.store.read(self.namespace) as tx:
            readers = {grant.namespace for grant in tx.feeds.grants()} - {self.namespace}
            moved = (
                {name: state.seq for name, state in tx.states.newest(MAIN, _offered(tx)).items()}
                if readers
                else {}
            )
        if moved == self._moved:
            return
        self._moved = moved
        for reader in readers:
            self._wake_of(reader)

    def _withdraw(self, listed: Iterable[Source]) -> None:
        """End listings of sources that are gone or paused by now: this pass began with the
        sources of the last one."""
        withdrawn = {n.dataset for n in listed} - {n.dataset for n in self._sources()}
        if withdrawn:
            with self.store.begin(self.namespace) as tx:
                for dataset in sorted(withdrawn):
                    long_polls.withdraw(tx, MAIN, listings.demand_of(dataset))

    def _read_in_branches(self) -> dict[str, list[Source]]:
        """Main's sources that are listed, and those that branches have of their own, by branch."""
        own = {
            b: [n for n in some if n.feed is None] for b, some in self._branching.sources().items()
        }
        return {MAIN: self._sources(), **own}

    def _dispatch(self, due: Sequence[Source], by_branch: Mapping[str, Sequence[Source]]) -> int:
        """Queue listings in one transaction; where that fails, those of each dataset in its own."""
        try:
            return self._dispatched(due, by_branch)
        except (Deposed, OSError):
            raise
        except Exception as e:  # noqa: BLE001  # reported below, with its dataset
            log.warning("listings are queued one by one", reason=str(e))
        listed = 0
        for branch, reads in by_branch.items():
            for node in reads:
                mine = [node] if node in due else []
                queue = partial(self._dispatched, mine, {branch: [node]})
                listed += self.failing_units.attempt(of_listing(node.dataset), queue, 0)
        return listed

    def _dispatched(self, due: Sequence[Source], by_branch: Mapping[str, Sequence[Source]]) -> int:
        with self.store.begin(self.namespace) as tx:
            listings.request(tx, due)
            is_periodic = self.flows is None
            return sum(
                listings.dispatch(tx, branch, reads, is_periodic=is_periodic)
                for branch, reads in by_branch.items()
            )

    def _in_hand(self, reads: Iterable[Source]) -> set[bytes]:
        """Growing listings whose present partitions a reader computes, as of the last pass, without
        a failure so far. If they grew on meanwhile it would never be whole: a stream whose slices
        take longer than the time from look to look would be published when it ends."""
        growing = {n.dataset: n.listing for n in reads if n.read.is_growing}
        planned = [d for d in self._planned if d.dataset in growing] if growing else []
        return {
            growing[d.dataset]
            for d in planned
            if d.error is None and isinstance(d.step, Compute | Learn)
        }

    def _listing_open(self) -> bool:
        reads = [node for some in self._read_in_branches().values() for node in some]
        with self.store.read(self.namespace) as tx:
            return any(map(listings.is_open, tx.listings.get(n.listing for n in reads).values()))


def _between(shortest_s: float, due_in_s: float) -> float:
    return min(max(due_in_s, shortest_s), IDLE_S)


def _offered(tx: Tx) -> set[str]:
    """Datasets that are offered as feeds."""
    return {feed.dataset for feed in tx.feeds.all()}


def _collect(collecting: Collecting) -> None:
    """If it is time."""
    if collected := collecting.step(time.monotonic()):
        log.info("collected", **asdict(collected))

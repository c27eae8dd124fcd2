"""Carry out a plan: commit new roots, demand tasks, learn schemas, sync targets. One transaction
per pass."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from controlplane import logs
from controlplane.core.errors import CorruptNode
from controlplane.core.model import change_marks
from controlplane.core.model.events import Event
from controlplane.core.model.leases import Deposed
from controlplane.core.model.tasks import Demand
from controlplane.core.plan import Commit, Compute, Decision, Keep, Plan, Planning, WorkStep
from controlplane.core.plan.source import lane
from controlplane.core.plan.transform import followers
from controlplane.operations.failing_units import FailingUnits, of_dataset
from controlplane.operations.planning.commits import commit_all
from controlplane.operations.planning.planner import Planner
from controlplane.operations.planning.snapshot import StoreSnapshot
from controlplane.operations.planning.step_visitors import StepExecutor, StepPreview, is_given_up
from controlplane.operations.work import slices
from controlplane.ports.store import Store
from dataplane.contract.failpoints import failpoint

log = logs.get("planning")

# Added to the priority of what a branch asks for: less than any that a blueprint gives
BELOW_MAIN = -10_000


@dataclass(frozen=True, slots=True)
class Pass:
    """One pass over the plan: its decisions, the number of changes, the number of tasks under
    way."""

    plan: Plan
    changed: int
    under_way: int


class PlanExecutor:
    """Passes over one branch.

    Partitions whose trace is newer than `since_trace` and was executed for the dataset do not count
    as adopted.
    """

    def __init__(
        self,
        store: Store,
        planner: Planner,
        namespace: str,
        branch: str,
        *,
        since_trace: int = 0,
        failing_units: FailingUnits | None = None,
        priority: int = 0,
    ) -> None:
        """`priority` is added to that of all tasks."""
        self._store, self._planner, self._namespace, self._branch = (
            store,
            planner,
            namespace,
            branch,
        )
        self._since_trace = since_trace
        self._failing_units = failing_units or FailingUnits()
        self._priority = priority
        planner.keeps_nodes = True

    def settle(self) -> Pass:
        """Plan from a snapshot, then carry the plan out in one transaction. What moved on in
        between is left for the next pass. A pass that fails forgets its facts: nodes that it did
        not store would be missed."""
        try:
            return self._pass()
        except BaseException:
            self._planner.forget()
            raise

    def _pass(self) -> Pass:
        with self._planner.read_plan() as (plan, facts):
            held = self._held(plan, facts)
            decided = [
                self._ranked(d) for d in self._planner.carried_out(plan) if d.dataset not in held
            ]
            steps = [
                d
                for d in decided
                if not isinstance(d.step, Keep) or is_given_up(d, facts) or _is_held(d)
            ]
            demanding = [d.dataset for d in steps if isinstance(d.step, WorkStep) or _is_held(d)]
            demands = facts.tx.queue.demanded(self._branch, demanding)
            todo = [
                d for d in steps if StepPreview(d, demands.get(d.dataset, {}), facts).would_change()
            ]
            todo = self._with_slices(facts, todo, demands)
            todo = self._with_followers(plan, facts, todo, {d.dataset for d in decided})
            collections = facts.tx.upkeep.collections() if todo else 0
            carrying = _Carrying(facts, demands, collections, self._planner.newest_mark)
        changed = self._carry_out(carrying, todo) if todo else 0
        failing = self._held(plan, facts) if self._failing_units.units else ()
        return Pass(
            plan, changed, _under_way(demands, [d for d in steps if d.dataset not in failing])
        )

    def _with_slices(
        self,
        facts: StoreSnapshot,
        todo: Sequence[Decision],
        demands: Mapping[str, Mapping[bytes, Demand]],
    ) -> list[Decision]:
        """With tasks for workers in place of drivers. Plans do not depend on it."""
        nodes = facts.desired.nodes
        readable = {
            d.dataset
            for d in todo
            if isinstance(d.step, Compute) and lane.may_have_slices(nodes[d.dataset], d.step)
        }
        room = slices.room(facts.tx) if readable else 0
        if not room:
            return list(todo)
        readable -= slices.left_datasets(facts.tx, self._branch, sorted(readable))
        changed: list[Decision] = []
        for decision in todo:
            if decision.dataset in readable:
                demanded = demands.get(decision.dataset, {})
                decision = lane.with_slices(decision, nodes[decision.dataset], demanded, room)
                new = [task for task in decision.step.tasks if task.key not in demanded]
                room -= sum(task.kind == lane.SLICE for task in new)
            changed.append(decision)
        return changed

    def _with_followers(
        self,
        plan: Plan,
        facts: StoreSnapshot,
        todo: Sequence[Decision],
        carried_out: Collection[str],
    ) -> list[Decision]:
        """With what drivers may go on to. Plans do not depend on it."""
        if not any(isinstance(d.step, Compute) for d in todo):
            return list(todo)
        planning = Planning(facts.compiled, facts, self._branch, now=facts.tx.now())
        planning.decisions.update((d.dataset, d) for d in plan.decisions)
        leading = list(todo)
        for place, decision in enumerate(todo):
            try:
                leading[place] = followers.with_followers(planning, decision, carried_out)
            except CorruptNode:
                """The decision that needs the node reports it."""
            except (Deposed, OSError):
                raise
            except Exception as e:  # a fault of followers stops no work
                log.exception("no followers", dataset=decision.dataset, reason=str(e))
        return leading

    def _ranked(self, decision: Decision) -> Decision:
        """With the priority that this branch's work has."""
        step = decision.step
        if not self._priority or not isinstance(step, WorkStep):
            return decision
        tasks = tuple(replace(task, priority=task.priority + self._priority) for task in step.tasks)
        return replace(decision, step=replace(step, tasks=tasks))

    def _held(self, plan: Plan, facts: StoreSnapshot) -> set[str]:
        """Datasets that failed to be carried out a moment ago, and those downstream: plans take it
        for done."""
        if not self._failing_units.units:
            return set()  # as nearly always: a plan may have ten thousand decisions
        failing = {
            d.dataset
            for d in plan.decisions
            if self._failing_units.is_waiting(of_dataset(d.dataset))
        }
        return failing | facts.desired.graph.downstream(failing) if failing else failing

    def _carry_out(self, carrying: _Carrying, todo: Sequence[Decision]) -> int:
        """In one transaction; each dataset in its own where that fails, so that one cannot stop the
        others."""
        try:
            changed = self._together(carrying, todo)
        except (Deposed, OSError):
            raise
        except Exception as e:  # noqa: BLE001  # reported with its dataset
            if len(todo) == 1:
                self._fail(todo[0].dataset, e)
                return 0
            self._planner.forget()
            return self._apart(carrying, todo)
        if self._failing_units.units:
            for decision in todo:
                self._failing_units.succeeded(of_dataset(decision.dataset))
        return changed

    def _apart(self, carrying: _Carrying, todo: Sequence[Decision]) -> int:
        """Carry out each decision alone, inputs first. Datasets downstream of one that fails are
        left for a later pass."""
        changed, spoiled = 0, set[str]()
        for decision in todo:
            if decision.dataset in spoiled:
                continue
            try:
                changed += self._together(carrying, [decision])
                self._failing_units.succeeded(of_dataset(decision.dataset))
            except (Deposed, OSError):
                raise
            except Exception as e:  # noqa: BLE001  # any failure is this dataset's alone
                self._fail(decision.dataset, e)
                spoiled |= carrying.facts.desired.graph.downstream([decision.dataset])
        return changed

    def _fail(self, dataset: str, error: Exception) -> None:
        self._planner.forget()
        failing_unit = self._failing_units.failed(of_dataset(dataset), error)
        body = {"message": failing_unit.message, "failures": failing_unit.failures}
        with self._store.begin(self._namespace) as tx:
            tx.events.put([Event("dataset.failing", dataset, 1, body, branch=self._branch)])

    def _together(self, carrying: _Carrying, todo: Sequence[Decision]) -> int:
        facts, demands = carrying.facts, carrying.demands
        changed = 0
        with self._store.begin(self._namespace) as tx:
            # What the plan found may be gone: look again
            if tx.upkeep.collections() != carrying.collections:
                self._planner.forget()
                return 1
            if any(
                map(
                    change_marks.is_request_mark,
                    tx.states.marked(self._branch, carrying.newest_mark)[1],
                )
            ):  # it may be unwanted by now
                return 1
            tx.nodes.put_nodes(facts.overlay.staged)
            commits: list[Commit] = []
            for decision in todo:
                demanded = demands.get(decision.dataset, {})
                changed += StepExecutor(
                    tx, decision, demanded, facts, self._since_trace, commits
                ).carry_out()
            changed += len(commit_all(tx, facts, commits, self._since_trace))
        self._planner.nodes_stored()
        failpoint("after-commit")
        return changed


@dataclass(frozen=True, slots=True)
class _Carrying:
    """A plan that is carried out, and the snapshot that it rests on."""

    facts: StoreSnapshot
    demands: Mapping[str, Mapping[bytes, Demand]]
    collections: int
    newest_mark: int  # the newest mark that the plan knows of


def _is_held(decision: Decision) -> bool:
    """A planner without knowledge of the hold may have requested work since: it is dropped."""
    return decision.status == "held"


def _under_way(demands: Mapping[str, Mapping[bytes, Demand]], decisions: Iterable[Decision]) -> int:
    """Demanded tasks that have neither failed nor are known to be over."""
    count = 0
    for decision in decisions:
        by_key = demands.get(decision.dataset, {})
        count += sum(
            t.key not in by_key or by_key[t.key].state != "failed" for t in decision.step.tasks
        )
    return count

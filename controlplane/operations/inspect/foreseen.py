"""The effects of a request about some datasets or dataflows, before it is made. Changes nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias, assert_never

from controlplane.core.compile.nodes import paused_by
from controlplane.core.errors import NotFound
from controlplane.core.model.answers.foreseen import ForeseenEffect, ForeseenItem
from controlplane.core.model.past_attempts import Cost
from controlplane.core.model.tasks import TaskState
from controlplane.core.plan import Decision, Plan
from controlplane.core.rights import Principal, may
from controlplane.operations.context import Context
from controlplane.operations.inspect.overview import as_known
from controlplane.operations.planning.snapshot import StoreSnapshot, targeted

BulkAction: TypeAlias = Literal["pause", "resume", "retry", "compute-again"]
UNDER_WAY: Final[Sequence[TaskState]] = ("queued", "running")


def foreseen(ctx: Context, branch: str, action: BulkAction, names: Sequence[str]) -> ForeseenEffect:
    """The expected effect of a request on datasets, copies and dataflows, by their names. Raises
    NotFound."""
    with ctx.read_plan(branch) as (plan, facts):
        look = _Look.of(ctx, plan, facts, action, names)
        items = [look.item(name) for name in names]
        meant = set(look.members)
        behind = facts.desired.graph.downstream(meant) - meant
        readers = [name for name in behind if ctx.sees(name)]
    tasks, seconds = (
        sum(foreseen_item["tasks"] for foreseen_item in items),
        [foreseen_item["seconds"] for foreseen_item in items],
    )
    known_seconds = [foreseen_item for foreseen_item in seconds if foreseen_item is not None]
    return {
        "wish": action,
        "items": items,
        "tasks": tasks,
        "seconds": round(sum(known_seconds), 1) if known_seconds else None,
        "readers": len(readers),
    }


@dataclass(frozen=True, slots=True)
class _Look:
    """Facts about all that the request covers. `members`: datasets and copies, including those of
    dataflows."""

    facts: StoreSnapshot
    action: BulkAction
    members: Mapping[str, Decision]
    tasks: Mapping[str, Mapping[TaskState, int]]
    costs: Mapping[str, Cost]
    paused: frozenset[str]
    principal: Principal

    @classmethod
    def of(
        cls,
        ctx: Context,
        plan: Plan,
        facts: StoreSnapshot,
        action: BulkAction,
        names: Sequence[str],
    ) -> _Look:
        members = {member for name in names for member in _members(facts, name)}
        chosen = as_known(ctx, facts.tx, facts, (d for d in plan.decisions if d.dataset in members))
        tasks = facts.tx.queue.demand_counts(facts.branch) if action in ("pause", "retry") else {}
        costs = (
            facts.tx.past_attempts.costs(facts.branch, sorted(members))
            if action == "compute-again"
            else {}
        )
        paused = facts.tx.blueprints.paused(facts.branch)
        return cls(
            facts,
            action,
            {d.dataset: d for d in chosen},
            tasks,
            costs=costs,
            paused=paused,
            principal=ctx.principal,
        )

    def item(self, name: str) -> ForeseenItem:
        own = [
            self.members[member] for member in _members(self.facts, name) if member in self.members
        ]
        state = own[0].status if len(own) == 1 else None
        tasks, seconds, sentence = self._forecast(name, own)
        return {
            "name": name,
            "state": state,
            "tasks": tasks,
            "seconds": seconds,
            "sentence": sentence,
        }

    def _forecast(self, name: str, own: Sequence[Decision]) -> tuple[int, float | None, str]:
        """The number of tasks, the seconds that they took before, and a sentence. Without tasks
        there is nothing to do."""
        match self.action:
            case "pause":
                return self._pause(own)
            case "resume":
                return self._resume(name, own)
            case "retry":
                return self._retry(own)
            case "compute-again":
                return self._compute_again(own)
            case _:
                assert_never(self.action)

    def _pause(self, own: Sequence[Decision]) -> tuple[int, float | None, str]:
        if own and all(decision.status == "paused" for decision in own):
            return 0, None, "it is paused already"
        count = sum(self._count(decision.dataset, UNDER_WAY) for decision in own)
        what = (
            f"; {_counted(count, 'task')} of it {'is' if count == 1 else 'are'} taken back"
            if count
            else ""
        )
        return count, None, f"nothing more of it is begun{what}; what is committed stays readable"

    def _resume(self, name: str, own: Sequence[Decision]) -> tuple[int, float | None, str]:
        resting = [decision for decision in own if decision.status in ("paused", "held")]
        if not resting:
            return 0, None, "it is not paused: nothing changes"
        still = {
            by for decision in resting if (by := self._still(decision.dataset, name)) is not None
        }
        if still:
            return 0, None, f"some or all of it stays paused, by {', '.join(sorted(still))}"
        held = sum(decision.status == "held" for decision in resting)
        if held:
            return (
                0,
                None,
                "it leaves the rows that it was rolled back to, and follows its inputs again",
            )
        return 0, None, "it goes on from where it was"

    def _still(self, dataset: str, name: str) -> str | None:
        """What else than a pause of `name` keeps it paused."""
        lifted = {
            name_paused
            for name_paused in self.paused
            if name in (name_paused, name_paused.partition(".")[0])
        }
        if self.facts.desired.nodes[dataset].component.paused:
            return "its blueprint"
        return min(paused_by(dataset) & (self.paused - lifted), default=None)

    def _retry(self, own: Sequence[Decision]) -> tuple[int, float | None, str]:
        names = {decision.dataset for decision in own}
        above = self.facts.desired.graph.upstream(names) - names
        visible = [decision for decision in above if may(self.principal, "view", dataset=decision)]
        count, upstream = (
            sum(self._count(decision, ("failed",)) for decision in some)
            for some in (names, visible)
        )
        if not count + upstream:
            return (
                0,
                None,
                "no task of it, or of what it reads, failed: only listings that failed are made again",
            )
        beside = f", {upstream} of them of what it reads" if upstream else ""
        tasks = count + upstream
        sentence = f"{_counted(tasks, 'task')} that failed {_is(tasks)} tried again{beside}"
        return tasks, None, sentence

    def _compute_again(self, own: Sequence[Decision]) -> tuple[int, float | None, str]:
        made = [
            decision.dataset
            for decision in own
            if self.facts.desired.nodes[decision.dataset].has_rows
        ]
        if not made:
            return 0, None, "an export is not recomputed: it follows its dataset"
        states = [(name, state) for name in made if (state := self.facts.state(name)) is not None]
        partitions, rows = (
            (sum(n) for n in zip(*((s.partitions, s.rows) for _, s in states), strict=True))
            if states
            else (0, 0)
        )
        took = [
            self.costs[name].seconds * state.partitions
            for name, state in states
            if name in self.costs
        ]
        counts = f"{_counted(partitions, 'partition')} with {_counted(rows, 'row')}"
        words = f"{counts} {_is(partitions)} recomputed"
        return partitions, round(sum(took), 1) if took else None, words

    def _count(self, dataset: str, states: Iterable[TaskState]) -> int:
        counts = self.tasks.get(dataset, {})
        return sum(counts.get(state, 0) for state in states)


def _members(facts: StoreSnapshot, name: str) -> list[str]:
    """The datasets and copies of a name; for a dataflow all of its own. Raises NotFound."""
    try:
        return targeted(facts.desired, name)
    except NotFound:
        if facts.tx.blueprints.revisions(facts.branch, [name]):
            return []  # a dataflow that does not compile
        raise


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def _is(count: int) -> str:
    return "is" if count == 1 else "are"

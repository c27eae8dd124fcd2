"""Problems that need a user, each at its cause: what a failed dataset blocks is part of its
problem. Changes nothing.

Does not belong here: why one dataset is as it is (`causes`), and a standstill of everything
(`standstill`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Final

from controlplane.core.model.answers import DatasetFreshness
from controlplane.core.model.answers.health import BlockedDataset, OpenProblem, ProblemKind
from controlplane.core.model.check_results import CheckResult
from controlplane.core.model.feeds import Feed
from controlplane.core.model.past_attempts import PastAttempt
from controlplane.core.plan import Decision
from controlplane.core.schema.contracts import breaches
from controlplane.operations.context import Context
from controlplane.operations.inspect import data_age, json_views, work
from controlplane.operations.inspect.overview import as_known, not_compiled, offers_of
from controlplane.operations.planning.snapshot import StoreSnapshot

ORDER: Final[Sequence[ProblemKind]] = (
    "failed",
    "waiting",
    "blocked",
    "contract",
    "overdue",
    "warning",
)
ATTEMPTS_READ: Final = 1_000


def of_branch(ctx: Context, branch: str) -> list[OpenProblem]:
    """As far as the actor sees them, worst first, in order of names."""
    with ctx.read_plan(branch) as (plan, facts):
        visible = [decision for decision in plan.decisions if ctx.sees(decision.dataset)]
        decisions = {d.dataset: d for d in as_known(ctx, facts.tx, facts, visible)}
        gathering = _Gathering(
            facts, decisions, data_age.of_snapshot(facts, decisions), offers_of(facts)
        )
        problems = [
            _problem(broken["dataflow"], "failed", broken["sentence"])
            for broken in not_compiled(ctx, facts)
        ]
        problems += gathering.problems()
    return sorted(problems, key=lambda problem: (ORDER.index(problem["kind"]), problem["name"]))


def _problem(name: str, kind: ProblemKind, sentence: str) -> OpenProblem:
    """A problem with nothing else known of it."""
    return {
        "name": name,
        "kind": kind,
        "state": "failed",
        "sentence": sentence,
        "error": None,
        "since": None,
        "tried": None,
        "owner": "",
        "blocks": [],
        "is_loss": False,
        "freshness": None,
    }


def _failing(check: CheckResult) -> str:
    """Which share of the rows fails a check."""
    if check["failing"] is None:
        return f"{check['name']} fails"
    share = "" if check["rows"] is None else f" of {check['rows']:,}"
    return f"{check['failing']:,}{share} rows fail {check['name']}"


@dataclass(slots=True)
class _Gathering:
    """`ages`: of datasets with a limit of age. `by_root`: blocked datasets by their cause."""

    facts: StoreSnapshot
    decisions: Mapping[str, Decision]
    ages: Mapping[str, DatasetFreshness]
    offers: Mapping[str, Sequence[Feed]]
    by_root: dict[str, list[str]] = field(default_factory=dict)

    def problems(self) -> list[OpenProblem]:
        for decision in self.decisions.values():
            if decision.status == "blocked":
                self.by_root.setdefault(self._root(decision), []).append(decision.dataset)
        problems: list[OpenProblem] = []
        for name, decision in self.decisions.items():
            if decision.status in ("failed", "waiting") or name in self.by_root:
                problems.append(self._of_cause(decision))
            elif decision.status != "blocked":
                problems += self._of_data(decision)
        self._add_times(problems)
        return problems

    def _root(self, decision: Decision) -> str:
        """The first dataset upstream that is not blocked itself; the last that the actor sees."""
        visited = set[str]()
        while decision.status == "blocked" and decision.dataset not in visited:
            visited.add(decision.dataset)
            above = self.decisions.get(decision.blocked_by)
            if above is None:
                break
            decision = above
        return decision.dataset

    def _of_cause(self, decision: Decision) -> OpenProblem:
        status = decision.status
        kind: ProblemKind = "blocked"  # by what the actor does not see, or by a pause
        if status in ("failed", "waiting"):
            kind = "failed" if status == "failed" else "waiting"
        problem = self._plain(decision, kind, decision.reason)
        blocked = (n for n in self.by_root.get(decision.dataset, ()) if n != decision.dataset)
        problem["blocks"] = [self._blocked(name) for name in sorted(blocked)]
        problem["is_loss"] = "--accept-deletes" in decision.reason
        problem["freshness"] = self._overdue(decision.dataset)
        return problem

    def _blocked(self, name: str) -> BlockedDataset:
        return {"name": name, "freshness": self._overdue(name)}

    def _overdue(self, name: str) -> DatasetFreshness | None:
        age = self.ages.get(name)
        return age if age is not None and age["late"] else None

    def _of_data(self, decision: Decision) -> Iterable[OpenProblem]:
        """Problems of a computed dataset: its age, its expectations, the contracts of its feeds."""
        name = decision.dataset
        if (age := self._overdue(name)) is not None:
            problem = self._plain(decision, "overdue", age["reason"] or "")
            since = None if age["age_s"] is None else self.facts.tx.now() - age["age_s"]
            problem["since"] = json_views.when(None if since is None else since + age["limit_s"])
            problem["freshness"] = age
            yield problem
        warnings = [_failing(check) for check in decision.checks if check["state"] == "warning"]
        if warnings:
            yield self._plain(decision, "warning", "; ".join(warnings))
        state = self.facts.state(name)
        if state is None:
            return
        for feed in self.offers.get(name, ()):
            if broken := list(breaches(feed.columns, state.schema)):
                sentence = f"the contract of feed {feed.name} is broken: {'; '.join(broken)}"
                yield self._plain(decision, "contract", sentence)

    def _plain(self, decision: Decision, kind: ProblemKind, sentence: str) -> OpenProblem:
        node = self.facts.desired.nodes[decision.dataset]
        return {
            **_problem(decision.dataset, kind, sentence),
            "state": decision.status,
            "error": json_views.error(decision.error, node),
            "owner": node.component.owner,
        }

    def _add_times(self, problems: Iterable[OpenProblem]) -> None:
        failed = {p["name"]: p for p in problems if p["kind"] == "failed"}
        if not failed:
            return
        tx, branch = self.facts.tx, self.facts.branch
        names = sorted(failed)[:ATTEMPTS_READ]
        attempts = tx.past_attempts.newest(branch, names, limit=ATTEMPTS_READ)
        is_all = len(attempts) < ATTEMPTS_READ
        for name, problem in failed.items():
            theirs = [attempt for attempt in work.own(attempts) if attempt.dataset == name]
            problem["tried"] = json_views.when(max((a.ended_at for a in theirs), default=None))
            problem["since"] = json_views.when(self._began(name, theirs) if is_all else None)

    def _began(self, name: str, attempts: Iterable[PastAttempt]) -> float | None:
        """When the first task failed since the last commit. None for an export, which has no
        commits, and where no task did: rows that an expectation refuses were computed."""
        if self.facts.desired.nodes[name].is_copy:
            return None
        state = self.facts.state(name)
        committed = -inf if state is None else state.at
        failures = (a.ended_at for a in attempts if a.failed and a.ended_at > committed)
        return min(failures, default=None)

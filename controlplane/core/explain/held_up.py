"""What keeps work from being done: a pause, a hold, something that is waited for, a dataset
upstream that failed."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import islice

from controlplane.core.compile.nodes import Desired, Node, paused_by
from controlplane.core.explain.change_authors import Audit
from controlplane.core.explain.upstream import upstream
from controlplane.core.plan import Decision
from controlplane.core.plan.checks.check_sums import EXPECTATION_FAILED
from controlplane.core.plan.plan_values import in_words

LOOKED_AT = 1_000  # datasets, nearest first


@dataclass(frozen=True, slots=True)
class HeldUp:
    """`dataset`: where it begins, and `at` when, where that is noted. `fix`: what ends it; empty
    where nothing has to be done. `commands`: those of the fix."""

    dataset: str
    sentence: str
    fix: str = ""
    commands: tuple[str, ...] = ()
    at: float | None = None


def _by_commands(dataset: str, sentence: str, *commands: str, at: float | None = None) -> HeldUp:
    """The commands are all that it takes."""
    return HeldUp(dataset, sentence, " && ".join(commands), commands, at)


def held_up(
    desired: Desired,
    decisions: Mapping[str, Decision],
    audit: Audit,
    dataset: str,
    paused: frozenset[str],
) -> HeldUp | None:
    """Why a dataset is paused, held, blocked, waiting or failed, or reads one that is paused or
    held; None for others."""
    decision = decisions[dataset]
    match decision.status:
        case "paused":
            return _paused(desired.nodes[dataset], audit, paused)
        case "held":
            return _held(decision)
        case "blocked":
            return _blocked(desired, decisions, audit, decision, paused)
        case "waiting":
            return _waiting(decision)
        case "failed":
            return _failed(decision)
        case _:
            return _stopped_above(desired, decisions, audit, dataset, paused)


def _stopped_above(
    desired: Desired,
    decisions: Mapping[str, Decision],
    audit: Audit,
    dataset: str,
    paused: frozenset[str],
) -> HeldUp | None:
    """The nearest dataset upstream that is paused or held: the datasets after it get nothing
    new."""
    for name in islice(upstream(desired, dataset), LOOKED_AT):
        if name in decisions and decisions[name].status == "paused":
            return _paused(desired.nodes[name], audit, paused)
        if name in decisions and decisions[name].status == "held":
            return _held(decisions[name])
    return None


def _held(decision: Decision) -> HeldUp:
    sentence = f"{decision.dataset} is {decision.reason}"
    return _by_commands(decision.dataset, sentence, f"headgate resume {decision.dataset}")


def _paused(node: Node, audit: Audit, paused: frozenset[str]) -> HeldUp:
    if node.component.paused:
        place = node.component.place
        file = posixpath.basename(place.file)  # the folder may be that of a checkout that is gone
        fix = "remove `paused: true`, and apply the blueprint"
        return HeldUp(node.dataset, f"paused in its blueprint ({file}:{place.line})", fix)
    names = sorted(paused_by(node.dataset) & paused)
    commands = [f"headgate resume {name}" for name in names]
    change = audit.paused(names)
    if change is None:
        return _by_commands(node.dataset, "paused by an operator", *commands)
    sentence = f"{change.target} was paused by {change.actor}"
    return _by_commands(node.dataset, sentence, *commands, at=change.at)


def _blocked(
    desired: Desired,
    decisions: Mapping[str, Decision],
    audit: Audit,
    decision: Decision,
    paused: frozenset[str],
) -> HeldUp:
    """By the first one upstream that is not blocked itself."""
    blocker, visited = decision, set[str]()
    while (
        blocker.status == "blocked"
        and blocker.blocked_by in decisions
        and blocker.dataset not in visited
    ):
        visited.add(blocker.dataset)
        blocker = decisions[blocker.blocked_by]
    above = (
        held_up(desired, decisions, audit, blocker.dataset, paused)
        if blocker.status != "blocked"
        else None
    )
    if above is None:
        return HeldUp(blocker.dataset, in_words(blocker.dataset, blocker.status))
    return replace(above, sentence=f"{in_words(above.dataset, blocker.status)}: {above.sentence}")


def _waiting(decision: Decision) -> HeldUp:
    is_loss = "--accept-deletes" in decision.reason
    commands = [f"headgate refresh {decision.dataset} --accept-deletes"] if is_loss else []
    return _by_commands(decision.dataset, decision.reason, *commands)


def _failed(decision: Decision) -> HeldUp:
    error = decision.error
    first = error["message"].strip().splitlines()[:1] if error else []
    sentence = ": ".join(part for part in (decision.reason, *first) if part)
    if error is None:
        return HeldUp(decision.dataset, sentence)
    if error["condition"] == EXPECTATION_FAILED:
        rows = f"headgate checks {decision.dataset}"
        fix = f"correct the rows or the expectation; `{rows}` shows rows that fail"
        return HeldUp(decision.dataset, sentence, fix, (rows,))
    again = f"headgate retry {decision.dataset}"
    if error["kind"] == "user":
        return HeldUp(decision.dataset, sentence, f"correct it and apply; or `{again}`", (again,))
    return _by_commands(decision.dataset, sentence, again)

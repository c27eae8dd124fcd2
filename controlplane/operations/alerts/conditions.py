"""Conditions of datasets that alerts report now: failed, blocked, waiting for a loss to be
confirmed, listed late."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import inf

from controlplane.core.alerts import Key
from controlplane.core.compile.nodes import Source
from controlplane.core.plan import Decision
from controlplane.operations.inspect import lateness, source_lag
from controlplane.operations.planning.snapshot import StoreSnapshot

SHORTEST_LATENESS_S = 10.0  # less may be a moment's
LONGEST_TEXT = 500  # characters


def current_conditions(facts: StoreSnapshot, decisions: Iterable[Decision]) -> dict[Key, str]:
    """Conditions that hold, with more in words."""
    conditions: dict[Key, str] = {}
    decided = list(decisions)
    for decision in decided:
        match decision.status:
            case "failed":
                conditions[decision.dataset, "failed"] = _error(decision)
            case "blocked":
                conditions[decision.dataset, "blocked"] = decision.reason
            case "waiting" if "--accept-deletes" in decision.reason:
                command = f"headgate refresh {decision.dataset} --accept-deletes"
                conditions[decision.dataset, "accept-deletes"] = (
                    f"{decision.reason.partition(';')[0]}; `{command}`"
                )
            case _:
                pass
    conditions.update(_late(facts, decided))
    return conditions


def _error(decision: Decision) -> str:
    lines = [decision.reason]
    if decision.error is not None:
        lines += decision.error["message"].strip().splitlines()[:1]
    return ": ".join(filter(None, lines))[:LONGEST_TEXT]


def _late(facts: StoreSnapshot, decisions: Iterable[Decision]) -> Mapping[Key, str]:
    nodes = [facts.desired.nodes[decision.dataset] for decision in decisions]
    listed_ones = (node for node in nodes if node.is_source and node.feed is None)
    sources = [node for node in listed_ones if not node.output]
    if not sources:
        return {}
    declared = {
        name: revision.at for name, revision in facts.tx.blueprints.revisions(facts.branch).items()
    }
    listed = lateness.of_sources(facts.tx, facts.branch, sources, declared)
    late = _behind(facts, sources)
    late |= {
        (name, "late"): f"its listing is {dataset_lateness['behind_s']:.0f} s behind"
        for name, dataset_lateness in listed.items()
        if dataset_lateness["behind_s"]
        > max(dataset_lateness["refresh_s"] or 0.0, SHORTEST_LATENESS_S)
    }
    return late


def _behind(facts: StoreSnapshot, sources: Iterable[Source]) -> dict[Key, str]:
    """Streams whose oldest uncommitted row waits for longer than a period, or at the next time of
    a cron expression. None that are listed on request only: they have no period. A dataset that is
    paused or held is not to be computed."""
    streams = [node for node in sources if not _is_halted(facts, node)]
    lags = source_lag.of_sources(facts, streams)
    late: dict[Key, str] = {}
    for node in streams:
        lag = lags.get(node.dataset)
        waits_s = None if lag is None else lag["seconds"]
        if lag is None or waits_s is None:
            continue
        if waits_s > max(_period_s(node, facts.tx.now() - waits_s), SHORTEST_LATENESS_S):
            late[node.dataset, "late"] = lag["sentence"]
    return late


def _period_s(node: Source, since: float) -> float:
    """Seconds until the listing after one of this time; infinity where only a request has one."""
    scheduled = node.due_after(since)
    if scheduled is not None:
        return scheduled - since
    return inf if node.read.refresh_s is None else node.read.refresh_s


def _is_halted(facts: StoreSnapshot, node: Source) -> bool:
    return facts.is_paused(node.dataset) or node.dataset in facts.holds()

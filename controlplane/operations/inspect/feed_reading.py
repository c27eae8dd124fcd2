"""Read components of a branch that follow feeds, and how they stand. Changes nothing."""

from __future__ import annotations

from controlplane.core.model.answers.feeds import FeedReading
from controlplane.operations.context import Context
from controlplane.operations.inspect.overview import as_known


def reading(ctx: Context, branch: str) -> list[FeedReading]:
    """Those that the actor sees, by dataset."""
    with ctx.read_plan(branch) as (plan, facts):
        nodes = facts.desired.nodes
        following = {d.dataset: nodes[d.dataset].feed for d in plan.decisions}
        visible_feeds = {name: feed for name, feed in following.items() if feed and ctx.sees(name)}
        decisions = as_known(
            ctx, facts.tx, facts, (d for d in plan.decisions if d.dataset in visible_feeds)
        )
        readings: list[FeedReading] = []
        for decision in decisions:
            feed, state = visible_feeds[decision.dataset], facts.state(decision.dataset)
            error = decision.error
            readings.append(
                {
                    "dataset": decision.dataset,
                    "namespace": feed.namespace,
                    "feed": feed.name,
                    "state": decision.status,
                    "generation": state.generation if state else 0,
                    "reason": error["message"] if error else decision.reason or None,
                }
            )
    return sorted(readings, key=lambda reading_entry: reading_entry["dataset"])

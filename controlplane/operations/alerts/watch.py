"""The look of the loop, once in each pass: what holds now, what to tell of it, what to send."""

from __future__ import annotations

from collections.abc import Sequence

from controlplane.core import alerts
from controlplane.core.alerts import Channels, News
from controlplane.core.model.alerts import Alert, Channel
from controlplane.operations.alerts import channels, conditions, outbox
from controlplane.operations.context import Context
from controlplane.operations.inspect.overview import as_known
from controlplane.operations.planning.planner import Planner


class Watch:
    """Of one branch. What is known stays in memory: only the leader changes it."""

    def __init__(self, ctx: Context, branch: str, planner: Planner, installation: Sequence[Channel]) -> None:
        self._ctx, self._branch, self._planner, self._installation = ctx, branch, planner, installation
        self._known: tuple[Alert, ...] | None = None
        self._is_sending = True  # there may be messages of an earlier term
        self.is_under_way = False  # a message waits to be sent for the first time

    def step(self) -> bool:
        """Whether anything changed that may allow more. Costs nothing where nobody is to be told."""
        news, flows = self._look()
        if not (news.kept or news.forgotten or news.told or self._is_sending):
            return False
        with self._ctx.store.begin(self._ctx.namespace) as tx:
            outbox.record(tx, self._branch, news)
            changed = outbox.step(tx, self._branch, flows)
            self._known = tx.alerts(self._branch)
            messages, now = tx.messages(self._branch), tx.now()
        self._is_sending = bool(messages)
        self.is_under_way = any(outbox.is_under_way(message, now) for message in messages)
        return changed

    def _look(self) -> tuple[News, dict[str, Channels]]:
        with self._planner.looking() as (plan, facts):
            nodes = facts.desired
            names = dict.fromkeys(d.dataset.partition(".")[0] for d in plan.decisions)
            flows = channels.of_flows(nodes, self._installation, nodes.texts)
            if self._known is None:
                self._known = facts.tx.alerts(self._branch)
            if not self._known and not any(flows.get(name) for name in names):
                return News(), flows
            decisions = as_known(self._ctx, facts.tx, facts, plan.decisions)
            mine = {d.dataset for d in decisions}
            known = [a for a in self._known if a.dataset in mine]
            seen = conditions.seen(facts, [d for d in decisions if flows.get(d.dataset.partition(".")[0])])
            news = alerts.look(self._branch, known, seen, flows, facts.tx.now())
            news.forgotten += [a for a in self._known if a.dataset not in nodes.nodes]
            return news, flows

"""The alerting step of the loop, once per pass: current conditions, new alerts, messages to
send."""

from __future__ import annotations

from collections.abc import Sequence

from controlplane.core import alerts
from controlplane.core.alerts import Channels, News
from controlplane.core.model.alerts import Alert, Channel
from controlplane.core.model.events import Event
from controlplane.operations.alerts import ages, channels, conditions, jumps, outbox
from controlplane.operations.context import Context
from controlplane.operations.inspect import data_age
from controlplane.operations.inspect.overview import as_known
from controlplane.operations.planning.planner import Planner


class Watch:
    """Alerts of one branch. Open alerts stay in memory: only the leader changes them."""

    def __init__(
        self, ctx: Context, branch: str, planner: Planner, installation: Sequence[Channel]
    ) -> None:
        self._ctx, self._branch, self._planner, self._installation = (
            ctx,
            branch,
            planner,
            installation,
        )
        self._open_alerts: tuple[Alert, ...] | None = None
        self._changes = data_age.LastChanges()
        self._jumps = jumps.SeenJumps()
        self._is_sending = True  # there may be messages of an earlier term
        self.is_under_way = False  # a message waits to be sent for the first time

    def step(self) -> bool:
        """True if anything changed that may allow more work. Free where no channel is configured
        and no dataset declares an expected freshness."""
        news, flows, events = self._look()
        if not (news.changed or news.forgotten or news.items or self._is_sending):
            return False
        with self._ctx.begin() as tx:
            outbox.record(tx, self._branch, news)
            tx.events.put(events)
            changed = outbox.step(tx, self._branch, flows)
            self._open_alerts = tx.alerts.all(self._branch)
            messages, now = tx.alerts.messages(self._branch), tx.now()
        self._is_sending = bool(messages)
        self.is_under_way = any(outbox.is_under_way(message, now) for message in messages)
        return changed

    def _look(self) -> tuple[News, dict[str, Channels], list[Event]]:
        with self._planner.read_plan() as (plan, facts):
            nodes, tx = facts.desired, facts.tx
            flows = channels.of_flows(nodes, self._installation, nodes.texts)
            mine = {d.dataset for d in plan.decisions}
            decisions = [d for d in plan.decisions if flows.get(d.dataset.partition(".")[0])]
            limits = data_age.expecting(nodes, mine)
            if self._open_alerts is None:
                self._open_alerts = tx.alerts.all(self._branch)
            if not self._open_alerts and not decisions and not limits:
                return News(), flows, []
            ages_by_dataset = data_age.of_datasets(
                tx, self._branch, limits, facts.states, self._changes
            )
            current = (
                conditions.current_conditions(facts, as_known(self._ctx, tx, facts, decisions))
                if decisions
                else {}
            )
            measures = channels.measures_reported(flows, (d.dataset for d in decisions))
            jumping = self._jumps.conditions(tx, self._branch, facts.states, measures)
            open_alerts = [a for a in self._open_alerts if a.dataset in mine]
            jump_texts = {key: jump.text for key, jump in jumping.items()}
            news = alerts.look(
                self._branch,
                open_alerts,
                {**current, **ages.late_datasets(ages_by_dataset), **jump_texts},
                flows,
                tx.now(),
                {key: jump.began_at for key, jump in jumping.items()},
            )
            news.forgotten += [a for a in self._open_alerts if a.dataset not in nodes.nodes]
            events = ages.events(self._branch, open_alerts, news, ages_by_dataset)
            events += jumps.events(self._branch, open_alerts, news)
            return news, flows, events

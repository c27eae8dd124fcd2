"""The channels of dataflows: their own, and those of the installation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from controlplane.core.alerts import Channels, channel_id
from controlplane.core.compile.nodes import Desired
from controlplane.core.model.alerts import Channel
from controlplane.core.model.answers.datasets import TrendMeasure

INSTALLATION = ""  # in place of a dataflow


def of_flow(nodes: Desired, installation: Sequence[Channel], flow: str) -> Channels:
    """By id, those of the installation last."""
    text = nodes.texts.get(flow)
    own = text.blueprint.notify if text else ()
    return {**_named(flow, own), **_named(INSTALLATION, installation)}


def of_flows(
    nodes: Desired, installation: Sequence[Channel], flows: Iterable[str]
) -> dict[str, Channels]:
    return {flow: of_flow(nodes, installation, flow) for flow in flows}


def measures_reported(
    flows: Mapping[str, Channels], datasets: Iterable[str]
) -> dict[str, set[TrendMeasure]]:
    """The measures whose jumps a channel reports, of the datasets that have such a channel."""
    reported: dict[str, set[TrendMeasure]] = {}
    for dataset in datasets:
        for channel in flows[dataset.partition(".")[0]].values():
            if channel.jumps and channel.covers(dataset):
                reported.setdefault(dataset, set()).update(channel.jumps)
    return reported


def _named(flow: str, channels: Sequence[Channel]) -> dict[str, Channel]:
    return {channel_id(flow, channel): channel for channel in channels}

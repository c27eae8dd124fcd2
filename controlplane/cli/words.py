"""The meaning of the words in summaries, one line each: for `--explain`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from controlplane.cli.output import Lines, View

if TYPE_CHECKING:
    from controlplane.core.model.answers import RunAnswer, StatusAnswer

COUNTS: Mapping[str, str] = {
    "executed": "tasks that computed partitions now; one that made several partitions counts once",
    "adopted": "partitions that were known already: equal work had been done before, so nothing was computed",
    "written": "partitions that were brought up to date in copies (write components)",
    "retried": "repeats of work that could not be finished the first time; they are no failures",
    "failed": "datasets and copies that ended failed; the errors are below",
    "other": "listings of sources, inference of schemas, checks and the like",
}
STATES: Mapping[str, str] = {
    "up_to_date": "it is what its inputs and its code give",
    "stale": "it is behind, and will be computed",
    "building": "it is being computed",
    "failed": "its last work failed, and is not tried again by itself: headgate why, then headgate retry",
    "blocked": "something that it reads failed",
    "waiting": "it waits for something: a confirmation, room, a refresh",
    "paused": "an operator paused it: headgate resume",
    "held": "it was rolled back, and stays so: headgate resume",
}


def counts(value: RunAnswer, explains: bool) -> View:
    """Explains the words of a run's summary."""
    if not explains:
        return []
    return [Lines(tuple(f"{word}: {COUNTS[word]}" for word in value["tasks"] if word in COUNTS))]


def states(value: StatusAnswer, explains: bool) -> View:
    """Explains the states that are shown."""
    if not explains:
        return []
    shown = {
        thing["state"]
        for flow in value["dataflows"]
        for thing in (*flow["datasets"], *flow["targets"])
    }
    shown |= {flow["state"] for flow in value["dataflows"]}
    return [Lines(tuple(f"{word}: {meaning}" for word, meaning in STATES.items() if word in shown))]

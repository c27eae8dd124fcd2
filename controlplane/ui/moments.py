"""The past of a dataflow: its last waves, and the datasets that one of them reached, left alone and
broke. Changes nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from controlplane.core.errors import NotFound
from controlplane.core.model.addresses import Moment, point_of
from controlplane.core.model.answers import State
from controlplane.core.model.answers.components import ComponentEdge
from controlplane.core.model.answers.datasets import ChangeKind
from controlplane.core.model.answers.explore import Wave, WaveAnswer
from controlplane.operations.context import Context
from controlplane.operations.explore import waves as past
from controlplane.operations.inspect.hidden import visible

WAVES: Final = 7  # on the line of a dataflow
LOOKED_THROUGH: Final = 200  # waves, for the one of a time
STUCK: Final[frozenset[State]] = frozenset({"failed", "blocked", "building"})
ARRIVED: Final[Mapping[ChangeKind, str]] = {
    "added": "arrived",
    "changed": "changed",
    "removed": "went",
}


def chosen(ctx: Context, branch: str, flow: str, id: str, at: str) -> WaveAnswer | None:
    """The wave of this id, or else the last one that had started at a time; None where neither is
    given. Raises NotFound, BadAddress."""
    if not id and at:
        id = _started_by(ctx, branch, flow, at)
    if not id:
        return None
    try:
        return visible(ctx, past.wave(ctx, branch, id))
    except NotFound:
        raise past.no_wave(branch, id) from None


def _started_by(ctx: Context, branch: str, flow: str, at: str) -> str:
    point = point_of(at, at)
    if isinstance(point, Moment):
        for wave in visible(ctx, past.waves(ctx, branch, flow, before=None, limit=LOOKED_THROUGH))[
            "items"
        ]:
            began = point_of(wave["at"], wave["at"])
            if isinstance(began, Moment) and began.milliseconds <= point.milliseconds:
                return wave["id"]
    raise NotFound(f"no wave of {flow} is known that had begun at {at}")


def stuck(
    wave: WaveAnswer, edges: Iterable[ComponentEdge], now: Mapping[str, tuple[State, int]]
) -> list[str]:
    """Datasets and copies downstream of this wave's commits that are failed, blocked or building.
    Commits that a later wave has replaced do not count. `now`: the state and the generation of each
    dataset and copy. `edges`: inputs first."""
    newest = {
        step["dataset"]
        for step in wave["steps"]
        if not step["stopped"] and now.get(step["dataset"], ("", 0))[1] == step["generation"]
    }
    waiting: dict[str, None] = {}
    for edge in edges:
        is_fed = edge["source"] in newest or edge["source"] in waiting
        target = edge["target"]
        # An export that the wave wrote may wait for a later commit
        is_reached = target in newest or target in wave["exports"]
        if is_fed and not is_reached and now.get(target, ("", 0))[0] in STUCK:
            waiting[target] = None
    return list(waiting)


def headline(wave: Wave) -> str:
    """The cause of a wave, in some words."""
    source = wave["dataset"].rpartition(".")[2]
    if len(wave["causes"]) > 1:
        return wave["reason"]
    if wave["keys"]:
        return f"{_keys(wave)} in {source}"
    if wave["revision"] is not None:
        flow, _, number = wave["revision"].partition("@")
        return f"revision {number} of {flow}" + (f", by {wave['actor']}" if wave["actor"] else "")
    if wave["actor"] and wave["cause"] == "forced":
        return f"{wave['actor']} asked for {source} to be computed again"
    if wave["actor"] and wave["cause"] == "rollback":
        return f"{wave['actor']} rolled {source} back"
    return wave["reason"]


def _keys(wave: Wave) -> str:
    """`2025-03-02.csv arrived`, `a.csv, b.csv and others changed`."""
    kinds = {wave_key["change"] for wave_key in wave["keys"]}
    verb = ARRIVED[next(iter(kinds))] if len(kinds) == 1 else "changed"
    names = [wave_key["partition"] or "(single partition)" for wave_key in wave["keys"]]
    if wave["more_keys"]:
        return f"{', '.join(names)} and others {verb}"
    *first, last = names
    return f"{', '.join(first)} and {last} {verb}" if first else f"{last} {verb}"


def outcome(wave: Wave) -> str:
    """The outcome of a wave, in numbers."""
    tasks = wave["tasks"]
    work = [f"{tasks['executed']} computed"]
    if tasks["adopted"]:
        work.append(f"{_counted(tasks['adopted'], 'partition')} reused")
    if wave["exports"]:
        work.append(f"{_counted(len(wave['exports']), 'export')} written")
    rest = [(wave["stopped"], "unchanged"), (wave["left_alone"], "not affected")]
    beside = "".join(f", {number} {word}" for number, word in rest if number)
    return f"{_counted(wave['reached'], 'dataset')} changed: {', '.join(work)}{beside and ';' + beside[1:]}"


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"

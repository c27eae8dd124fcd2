"""Questions that decisions ask of the world. Deciding is a generator that yields them, so that what
many components want to know is looked up in one go.

Each function here is used with `yield from`.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from typing import Any, Literal, TypeAlias, TypeVar

from controlplane.core import tree
from controlplane.core.errors import CorruptNode
from controlplane.core.model.memos import Memos
from controlplane.core.model.sources import SourcePartition
from controlplane.core.model.states import State
from controlplane.core.model.tasks import Fragment, Task, Trace
from controlplane.core.plan.plan_values import Decision, Snapshot, broken
from dataplane.contract.schemas import Schema

T = TypeVar("T")
What: TypeAlias = Literal[
    "nodes",
    "diffs",
    "missing_keys",
    "remembered",
    "traces",
    "fragments",
    "tasks",
    "partitions",
    "settled",
]
Path: TypeAlias = tuple[bytes, Sequence[str]]  # a root, and keys in it


@dataclass(frozen=True, slots=True)
class Ask:
    what: What
    about: Any


Deciding: TypeAlias = Generator[Ask, Any, T]
Remembered: TypeAlias = tuple[Mapping[bytes, tuple[bytes, Schema]], Memos]


def nodes(paths: Iterable[Path]) -> Deciding[None]:
    """Have the tree nodes on the way to these keys at hand; without keys, the roots."""
    yield Ask("nodes", [path for path in paths if path[0] != tree.EMPTY_ROOT])


def diffs(pairs: Sequence[tuple[bytes, bytes]]) -> Deciding[list[list[tree.EntryChange]]]:
    """The difference of each pair of roots (old, new)."""
    changes: list[list[tree.EntryChange]] = yield Ask("diffs", pairs)
    return changes


def missing_keys(pairs: Sequence[tuple[bytes, bytes]]) -> Deciding[list[list[str]]]:
    """The keys of each pair of roots (have, wanted) that only the second one has."""
    keys: list[list[str]] = yield Ask("missing_keys", pairs)
    return keys


def remembered(builds: Sequence[bytes], memos: Sequence[bytes]) -> Deciding[Remembered]:
    """Build traces and memos; the answer may hold those of others, too."""
    answer: Remembered = yield Ask("remembered", (builds, memos))
    return answer


def memos(keys: Sequence[bytes]) -> Deciding[Memos]:
    """Memos alone; the answer may hold those of others, too."""
    _, answer = yield from remembered([], keys)
    return answer


def traces(keys: Sequence[bytes]) -> Deciding[Mapping[bytes, Trace]]:
    answer: Mapping[bytes, Trace] = yield Ask("traces", keys)
    return answer


def fragments(ids: Sequence[bytes]) -> Deciding[Mapping[bytes, Fragment]]:
    answer: Mapping[bytes, Fragment] = yield Ask("fragments", ids)
    return answer


def tasks(keys: Sequence[bytes]) -> Deciding[Mapping[bytes, Task]]:
    answer: Mapping[bytes, Task] = yield Ask("tasks", keys)
    return answer


def partitions(listing: bytes, keys: Sequence[str]) -> Deciding[Mapping[str, SourcePartition]]:
    answer: Mapping[str, SourcePartition] = yield Ask("partitions", (listing, keys))
    return answer


def settled(states: Sequence[tuple[str, int]]) -> Deciding[Mapping[tuple[str, int], State]]:
    """Former states of datasets, by (dataset, `seq`); the answer may hold states that other
    decisions requested."""
    answer: Mapping[tuple[str, int], State] = yield Ask("settled", states)
    return answer


@dataclass(frozen=True, slots=True)
class _Unanswered:
    """A question that cannot be answered."""

    reason: Exception


Answer: TypeAlias = Any  # the requested value, or _Unanswered


# --- answering ------------------------------------------------------------------------------------


def prefetch(roots: Iterable[bytes], world: Snapshot) -> None:
    """Have the nodes of these roots at hand. A damaged node is reported to the decision that needs
    it."""
    with suppress(CorruptNode):
        tree.warm(world.nodes, [(root, ()) for root in roots])


def decide_all(deciding: Mapping[str, Deciding[Decision]], world: Snapshot) -> dict[str, Decision]:
    """Run all of them in step; their simultaneous look-ups are combined.

    Each stands by itself: one that raises is decided to have failed, and no other one notices. Only
    a failure of the database (OSError) ends all of them.
    """
    running, decided = dict(deciding), {}
    answers: dict[str, Answer] = dict.fromkeys(running)
    while running:
        asks: dict[str, Ask] = {}
        for dataset, generator in list(running.items()):
            try:
                asks[dataset] = _resume(generator, answers[dataset])
            except StopIteration as end:
                decided[dataset] = end.value
                del running[dataset]
            except OSError:
                raise
            except Exception as e:  # noqa: BLE001  # any failure is this dataset's alone
                decided[dataset] = broken(dataset, e)
                del running[dataset]
        answers = _answers(asks, world)
    return {dataset: decided[dataset] for dataset in deciding}


def decide(deciding: Deciding[T], world: Snapshot) -> T:
    """The value of one of them. What it raises is raised."""
    answer: Answer = None
    while True:
        try:
            ask = _resume(deciding, answer)
        except StopIteration as end:
            decided: T = end.value
            return decided
        answer = _answers({"": ask}, world)[""]


def _resume(generator: Deciding[Any], answer: Answer) -> Ask:
    return (
        generator.throw(answer.reason)
        if isinstance(answer, _Unanswered)
        else generator.send(answer)
    )


def _answers(asks: Mapping[str, Ask], world: Snapshot) -> dict[str, Answer]:
    by_kind: dict[What, dict[str, Any]] = {}
    for dataset, ask in asks.items():
        by_kind.setdefault(ask.what, {})[dataset] = ask.about
    answers: dict[str, Answer] = {}
    for what, about in by_kind.items():
        answers |= _together_or_apart(what, about, world)
    return answers


def _together_or_apart(what: What, about: Mapping[str, Any], world: Snapshot) -> dict[str, Answer]:
    """One look-up for all; where it fails, one for each, so that only the decision that caused the
    failure gets it."""
    try:
        return dict(zip(about, _ANSWERING[what](world, list(about.values())), strict=True))
    except OSError:
        raise
    except Exception as e:  # noqa: BLE001  # thrown into the decision that asked
        if len(about) == 1:
            return dict.fromkeys(about, _Unanswered(e))
    answers: dict[str, Answer] = {}
    for dataset, subject in about.items():
        answers |= _together_or_apart(what, {dataset: subject}, world)
    return answers


def _warm(world: Snapshot, asks: list[list[Path]]) -> list[None]:
    tree.warm(world.nodes, chain.from_iterable(asks))
    return [None] * len(asks)


def _diffs(
    world: Snapshot, asks: list[Sequence[tuple[bytes, bytes]]]
) -> list[list[list[tree.EntryChange]]]:
    pairs = list(chain.from_iterable(asks))
    changes: list[list[tree.EntryChange]] = [[] for _ in pairs]
    for number, change in tree.diff_many(world.nodes, pairs):
        changes[number].append(change)
    return _split(changes, asks)


def _missing_keys(
    world: Snapshot, asks: list[Sequence[tuple[bytes, bytes]]]
) -> list[list[list[str]]]:
    pairs = list(chain.from_iterable(asks))
    keys: list[list[str]] = [[] for _ in pairs]
    for number, change in tree.diff_keys_many(world.nodes, pairs):
        if change.after:
            keys[number].append(change.key)
    return _split(keys, asks)


def _split(answers: list[T], asks: list[Sequence[tuple[bytes, bytes]]]) -> list[list[T]]:
    """The answers of all pairs, by the decision that requested them."""
    rest = iter(answers)
    return [[next(rest) for _ in ask] for ask in asks]


def _remembered(
    world: Snapshot, asks: list[tuple[Sequence[bytes], Sequence[bytes]]]
) -> list[Remembered]:
    builds, memos = zip(*asks, strict=True)
    return [world.remembered(_distinct(builds), _distinct(memos))] * len(asks)


def _distinct(asks: Iterable[Iterable[T]]) -> list[T]:
    return list(dict.fromkeys(chain.from_iterable(asks)))


def _together(
    look: Callable[[Snapshot, list[Any]], Any],
) -> Callable[[Snapshot, list[Any]], list[Any]]:
    return lambda world, asks: [look(world, _distinct(asks))] * len(asks)


def _partitions(
    world: Snapshot, asks: list[tuple[bytes, Sequence[str]]]
) -> list[Mapping[str, SourcePartition]]:
    keys_of: dict[bytes, dict[str, None]] = {}
    for listing, keys in asks:
        keys_of.setdefault(listing, {}).update(dict.fromkeys(keys))
    by_listing = world.source_partitions({listing: list(keys) for listing, keys in keys_of.items()})
    return [by_listing[listing] for listing, _ in asks]


_ANSWERING: Mapping[What, Callable[[Snapshot, list[Any]], list[Any]]] = {
    "nodes": _warm,
    "diffs": _diffs,
    "missing_keys": _missing_keys,
    "remembered": _remembered,
    "traces": _together(lambda world, keys: world.traces(keys)),
    "fragments": _together(lambda world, ids: world.fragments(ids)),
    "tasks": _together(lambda world, keys: world.tasks(keys)),
    "partitions": _partitions,
    "settled": _together(
        lambda world, states: {(s.dataset, s.seq): s for s in world.settled(states)}
    ),
}

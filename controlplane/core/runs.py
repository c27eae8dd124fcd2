"""Runs: commits put together by what started them, not by time.

A run begins with a commit that no other one led to: of a source that changed, of new code, of an operator's wish.
Commits that followed from it belong to it. A dataset commits once in a run: what commits again begins the next one.
Does not belong here: what the commits took (`operations.inspect.past_runs`), and how they are told.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from controlplane.core.model.states import Cause, Consumed, State

Output = tuple[str, bytes]  # a dataset, and a root that it has been committed with


@dataclass(frozen=True, slots=True)
class Commit:
    """A state of a dataset, as far as runs are told by it; or work on the next one, which has no root yet."""

    dataset: str
    seq: int
    at: float
    cause: Cause
    revision: int
    root: bytes | None
    has_new_code: bool
    changed: tuple[Output, ...]  # the inputs that are others than those of the state before
    wish: float | None = None  # when an operator asked for it, where one did
    is_cut_off: bool = False  # what was before it is not kept any more
    reads: tuple[str, ...] = ()  # datasets

    @property
    def code(self) -> tuple[str, int]:
        """The dataflow, and its revision."""
        return self.dataset.partition(".")[0], self.revision


@dataclass(slots=True, eq=False)
class Run:
    """Commits that belong together, in order. `revision` is the edit that started it, if one did."""

    number: int = 0
    commits: list[Commit] = field(default_factory=list)
    datasets: set[str] = field(default_factory=set)
    revision: tuple[str, int] | None = None
    into: Run | None = None  # that it has become a part of

    @property
    def is_cut_off(self) -> bool:
        return any(commit.is_cut_off for commit in self.commits)

    @property
    def id(self) -> str:
        """Stays the same as long as its first commit is kept."""
        if self.revision is not None:
            return f"{self.revision[0]}.rev{self.revision[1]}"
        return f"{self.commits[0].dataset}:{self.commits[0].seq}"


def commit_of(state: State, before: State | None, wishes: Sequence[float] = ()) -> Commit:
    """`before`: the state before it. Of another than the first it may not be kept any more. `wishes`: when operators
    asked for something to be computed again."""
    is_other_code = before is not None and before.lineage != state.lineage
    # Of a rollback, and after its hold, other code is no edit.
    has_new_code = state.seq == 1 or (is_other_code and state.cause not in ("rollback", "resume"))
    return Commit(
        dataset=state.dataset,
        seq=state.seq,
        at=state.at,
        cause=state.cause,
        revision=state.revision,
        root=state.root,
        has_new_code=has_new_code,
        changed=changed(state.inputs, before),
        wish=_wish(state, wishes),
        is_cut_off=before is None and state.seq > 1,
        reads=tuple(dict.fromkeys(one.dataset for one in state.inputs.values())),
    )


def _wish(state: State, wishes: Sequence[float]) -> float | None:
    match state.cause:
        case "forced":
            return max((at for at in wishes if at <= state.at), default=None)
        case "rollback":
            return state.at  # that of all that was rolled back with it
        case _:
            return None


def changed(inputs: Mapping[str, Consumed], before: State | None) -> tuple[Output, ...]:
    """The inputs that are others than those of the state before, or have other rows; none where there is none."""
    if before is None:
        return ()
    known = set(_outputs(before.inputs))
    return tuple(one for one in _outputs(inputs) if one not in known)


def _outputs(inputs: Mapping[str, Consumed]) -> tuple[Output, ...]:
    return tuple(dict.fromkeys((one.dataset, one.root) for one in inputs.values()))


def commits_of(states: Mapping[str, Sequence[State]], wishes: Sequence[float] = ()) -> list[Commit]:
    """Of states by dataset, newest first each."""
    found: list[Commit] = []
    for theirs in states.values():
        older: list[State | None] = [*theirs[1:], None]
        found += [commit_of(state, before, wishes) for state, before in zip(theirs, older, strict=True)]
    return found


def runs(commits: Iterable[Commit], order: Mapping[str, int]) -> list[Run]:
    """In the order in which they began, but those whose beginning is not kept any more. `order`: of datasets, inputs
    first; it decides between commits of one time."""
    grouping = _Grouping()
    for commit in sorted(commits, key=lambda c: (c.at, order.get(c.dataset, -1), c.seq)):
        grouping.add(commit)
    return [run for run in grouping.runs if run.into is None and not run.is_cut_off]


class _Grouping:
    """Runs so far, and in which of them each output and each edit is."""

    def __init__(self) -> None:
        self.runs: list[Run] = []
        self._by_output: dict[Output, Run] = {}
        self._by_code: dict[tuple[str, int], Run] = {}
        self._by_wish: dict[float, Run] = {}
        self._count = 0
        self._last: dict[str, tuple[int, Run]] = {}  # of each dataset, the number of its last commit

    def add(self, commit: Commit) -> None:
        run = self._joined(self._leading_to(commit), commit.dataset)
        run.commits.append(commit)
        run.datasets.add(commit.dataset)
        if commit.has_new_code:
            self._by_code.setdefault(commit.code, run)
            run.revision = run.revision or commit.code
        if commit.wish is not None:
            self._by_wish.setdefault(commit.wish, run)
        if commit.root is not None:
            self._by_output[commit.dataset, commit.root] = run
        self._count += 1
        self._last[commit.dataset] = (self._count, run)

    def _leading_to(self, commit: Commit) -> list[Run]:
        """Runs that it may belong to, the newest first."""
        known = [self._by_output.get(one) for one in commit.changed]
        if commit.has_new_code:
            known.append(self._by_code.get(commit.code))
        if commit.wish is not None:
            known.append(self._by_wish.get(commit.wish))
        if not any(known) and commit.cause == "input":
            known += self._made_again(commit)
        whole = {run.number: run for run in map(_whole, known) if run is not None}
        return [whole[number] for number in sorted(whole, reverse=True)]

    def _made_again(self, commit: Commit) -> list[Run]:
        """Where an input was committed since, with the rows that it had before."""
        if commit.dataset not in self._last:
            return []
        own, _ = self._last[commit.dataset]
        newest = (self._last[name] for name in commit.reads if name in self._last)
        return [run for number, run in newest if number > own]

    def _joined(self, leading: Sequence[Run], dataset: str) -> Run:
        """The newest of these, with the others that have no dataset in common with it; a new one where there is none
        without this dataset."""
        free = [run for run in leading if dataset not in run.datasets]
        if not free:
            self.runs.append(Run(len(self.runs)))
            return self.runs[-1]
        newest = free[0]
        for older in free[1:]:
            if older.datasets.isdisjoint(newest.datasets):
                _merge(newest, older)
                newest = older
        return newest


def _whole(run: Run | None) -> Run | None:
    """What a run has become a part of."""
    while run is not None and run.into is not None:
        run = run.into
    return run


def _merge(run: Run, into: Run) -> None:
    into.commits = sorted([*run.commits, *into.commits], key=lambda c: c.at)
    into.datasets |= run.datasets
    into.revision = into.revision or run.revision
    run.into = into

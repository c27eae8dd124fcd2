"""Runs: commits put together by what started them, not by time.

A run begins with a commit that no other one led to: a changed source, new code, an operator's
request. Commits that followed from it belong to it, also where a dataset commits twice. A commit
that two runs led to makes one run of both, with two causes, unless a dataset is in both. Rows that
were taken out of a dataset belong to its run.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from controlplane.core.blueprint import QUARANTINE
from controlplane.core.model.states import Cause, Consumed, State

Output = tuple[str, bytes]  # a dataset, and a root that it has been committed with
# Of a transform: something upstream changed
FOLLOWING: frozenset[Cause] = frozenset({"input", "schema", "removed"})
PENDING = b""  # the root of an output that is not committed yet


@dataclass(frozen=True, slots=True)
class RunCommit:
    """A state of a dataset, as far as runs depend on it; or work on the next one, which has no root
    yet."""

    dataset: str
    seq: int
    at: float
    cause: Cause
    revision: int
    root: bytes | None
    has_new_code: bool
    changed: tuple[Output, ...]  # the inputs that are others than those of the state before
    requested_at: float | None = None  # when an operator asked for it, where one did
    is_cut_off: bool = False  # the state before it is no longer kept
    inputs: tuple[Output, ...] = ()  # that it was made from; a listing has no name

    @property
    def maker(self) -> str:
        """The dataset whose tasks make it."""
        return self.dataset.removesuffix(QUARANTINE)

    @property
    def follows(self) -> bool:
        """Whether commits of its inputs led to it."""
        return (
            self.cause in FOLLOWING
            and not self.has_new_code
            and any(name for name, _ in self.inputs)
        )

    @property
    def code(self) -> tuple[str, int]:
        """The dataflow, and its revision."""
        return self.dataset.partition(".")[0], self.revision


@dataclass(slots=True, eq=False)
class Run:
    """Commits that belong together, in order. `revision` is the edit that started it, if one did.
    `started_by`: the commits that no other one led to."""

    number: int = 0
    commits: list[RunCommit] = field(default_factory=list)
    started_by: list[RunCommit] = field(default_factory=list)
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


def commit_of(state: State, before: State | None, request_times: Sequence[float] = ()) -> RunCommit:
    """`before`: the state before it. None also where the state before is no longer kept.
    `request_times`: when operators requested a computation again."""
    # Of a rollback, and after its hold, other code is no edit.
    is_edited = state.cause not in ("rollback", "resume") and is_new_code(
        state.lineage, state.revision, before
    )
    return RunCommit(
        dataset=state.dataset,
        seq=state.seq,
        at=state.at,
        cause=state.cause,
        revision=state.revision,
        root=state.root,
        has_new_code=state.seq == 1 or is_edited,
        changed=changed(state.inputs, before),
        requested_at=_requested_at(state, request_times),
        is_cut_off=before is None and state.seq > 1,
        inputs=_outputs(state.inputs),
    )


def is_new_code(lineage: bytes, revision: int, before: State | None) -> bool:
    """Whether its dataflow was edited since the state before. Other code of another dataflow comes
    with its rows."""
    return before is not None and before.lineage != lineage and before.revision != revision


def _requested_at(state: State, request_times: Sequence[float]) -> float | None:
    match state.cause:
        case "forced":
            return max((at for at in request_times if at <= state.at), default=None)
        case "rollback":
            return state.at  # that of all that was rolled back with it
        case _:
            return None


def changed(inputs: Mapping[str, Consumed], before: State | None) -> tuple[Output, ...]:
    """The inputs that are others than those of the state before, or have other rows; none where
    there is none."""
    if before is None:
        return ()
    earlier = set(_outputs(before.inputs))
    return tuple(output for output in _outputs(inputs) if output not in earlier)


def _outputs(inputs: Mapping[str, Consumed]) -> tuple[Output, ...]:
    return tuple(dict.fromkeys((consumed.dataset, consumed.root) for consumed in inputs.values()))


def commits_of(
    states: Mapping[str, Sequence[State]], request_times: Sequence[float] = ()
) -> list[RunCommit]:
    """Commits of states by dataset, newest first each."""
    commits: list[RunCommit] = []
    for theirs in states.values():
        older: list[State | None] = [*theirs[1:], None]
        commits += [
            commit_of(state, before, request_times)
            for state, before in zip(theirs, older, strict=True)
        ]
    return commits


def runs(commits: Iterable[RunCommit], order: Mapping[str, int]) -> list[Run]:
    """In the order in which they began, without those whose beginning is no longer kept. `order`:
    of datasets, inputs first; it decides between commits of one time."""
    grouping = _Grouping()
    for commit in sorted(commits, key=lambda c: (c.at, order.get(c.dataset, -1), c.seq)):
        grouping.add(commit)
    return [run for run in grouping.runs if run.into is None and not run.is_cut_off]


@dataclass(frozen=True, slots=True)
class _Placed:
    """A commit in its run. `number` counts commits of all datasets."""

    number: int
    root: bytes
    inputs: tuple[Output, ...]
    run: Run


class _Grouping:
    """Runs so far, and in which of them each output and each edit is."""

    def __init__(self) -> None:
        self.runs: list[Run] = []
        self._by_output: dict[Output, Run] = {}
        self._by_code: dict[tuple[str, int], Run] = {}
        self._by_request: dict[float, Run] = {}
        # A maker, and what its tasks read
        self._by_inputs: dict[tuple[str, tuple[Output, ...]], Run] = {}
        self._count = 0
        self._past: dict[str, list[_Placed]] = {}  # of each dataset

    def add(self, commit: RunCommit) -> None:
        self._count += 1
        candidates = self._leading_to(commit)
        run = self._joined(candidates, commit.dataset)
        if not candidates or commit.has_new_code:
            run.started_by.append(commit)
        run.commits.append(commit)
        run.datasets.add(commit.dataset)
        if commit.has_new_code:
            of_edit = _merged_run(self._by_code.setdefault(commit.code, run))
            run.revision = run.revision or (commit.code if of_edit is run else None)
        if commit.requested_at is not None:
            self._by_request.setdefault(commit.requested_at, run)
        self._by_inputs[commit.maker, commit.inputs] = run
        root = PENDING if commit.root is None else commit.root
        self._by_output[commit.dataset, root] = run
        self._past.setdefault(commit.dataset, []).append(
            _Placed(self._count, root, commit.inputs, run)
        )

    def _leading_to(self, commit: RunCommit) -> list[Run]:
        """Runs that it may belong to, the newest first."""
        candidates = [self._by_output.get(output) for output in commit.changed]
        candidates += [
            run for read in commit.changed for run in self._arrived_meanwhile(commit, read)
        ]
        if commit.has_new_code:
            candidates.append(self._by_code.get(commit.code))
        if commit.requested_at is not None:
            candidates.append(self._by_request.get(commit.requested_at))
        if not any(candidates):
            candidates += self._made_beside(commit)
        if not any(candidates) and commit.follows:
            candidates += self._made_again(commit)
        by_number = {run.number: run for run in map(_merged_run, candidates) if run is not None}
        return [by_number[number] for number in sorted(by_number, reverse=True)]

    def _made_beside(self, commit: RunCommit) -> Iterator[Run]:
        """Where the same tasks made rows of the maker, or rows that were taken out of it."""
        twin = commit.maker if commit.dataset != commit.maker else commit.dataset + QUARANTINE
        run = _merged_run(self._by_inputs.get((commit.maker, commit.inputs)))
        if run is not None and twin in run.datasets:
            yield run

    def _arrived_meanwhile(self, commit: RunCommit, read: Output) -> Iterator[Run]:
        """Commits of an input before the one that is read: nothing has read them, and they came
        while the dataset's last commit was made."""
        name, root = read
        own, past = self._last(commit.dataset), self._past.get(name, ())
        place = next((n for n in range(len(past) - 1, -1, -1) if past[n].root == root), 0)
        for earlier in reversed(past[:place]):
            run = _merged_run(earlier.run)
            if own is None or earlier.number > own.number or (name, earlier.root) in own.inputs:
                return
            if run is None or {c.maker for c in run.commits} != {name}:
                return
            yield run

    def _made_again(self, commit: RunCommit) -> list[Run]:
        """Where inputs were committed since, with the rows that they had before; else where the
        last of them was."""
        own = self._last(commit.dataset)
        newest = [placed for name, _ in commit.inputs if (placed := self._last(name))]
        since = [placed for placed in newest if own is not None and placed.number > own.number]
        last = sorted(newest, key=lambda placed: placed.number)[-1:]
        return [placed.run for placed in since or last]

    def _last(self, dataset: str) -> _Placed | None:
        commits = self._past.get(dataset)
        return commits[-1] if commits else None

    def _joined(self, leading: Sequence[Run], dataset: str) -> Run:
        """The newest of these in which the dataset is not yet, or else the newest, with the others
        that have no dataset in common with it; a new one where nothing led to it."""
        if not leading:
            self.runs.append(Run(len(self.runs)))
            return self.runs[-1]
        newest = next((run for run in leading if dataset not in run.datasets), leading[0])
        for older in (run for run in leading if run.number < newest.number):
            if older.datasets.isdisjoint(newest.datasets) or _is_superseded(older, newest):
                _merge(newest, older)
                newest = older
        return newest


def _is_superseded(older: Run, newer: Run) -> bool:
    """Whether it has commits of one dataset only, which nothing had read before the next one."""
    return len({c.maker for c in older.commits}) == 1 and older.datasets <= newer.datasets


def _merged_run(run: Run | None) -> Run | None:
    """What a run has become a part of."""
    while run is not None and run.into is not None:
        run = run.into
    return run


def _merge(run: Run, into: Run) -> None:
    into.commits = sorted([*run.commits, *into.commits], key=lambda c: c.at)
    into.started_by += run.started_by
    into.datasets |= run.datasets
    into.revision = into.revision or run.revision
    run.into = into

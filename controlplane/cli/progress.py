"""Progress of a run: datasets that were made, and those that are being made.

On a terminal, a line for each dataset that is being made with a bar of its tasks, drawn again as it
changes. Elsewhere a line of text each ten seconds. Does not belong here: the result of the run."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, Self, TextIO

from controlplane.cli.output import is_fancy, is_utf8
from controlplane.core.model.driver_ends import STARTING

if TYPE_CHECKING:
    from rich.progress import Progress as Bars
    from rich.progress import TaskID

LINE_S = 10.0  # between two lines where there is no terminal
STARTING_S = 2.0  # from which on a start of Spark is shown
MOST_BARS, MOST_NAMES, MOST_ENDS = 8, 3, 20
MOVING = ("stale", "building")
ENDS = ("up_to_date", "failed")


class PassProgress(Protocol):
    """The progress that the loop reports after each pass."""

    @property
    def under_way(self) -> int: ...

    @property
    def states(self) -> Mapping[str, Any]: ...

    @property
    def tasks_left(self) -> Mapping[str, int]: ...

    @property
    def publishing(self) -> int: ...

    @property
    def spark_starting_s(self) -> float | None: ...


@dataclass(slots=True)
class DatasetWork:
    """A dataset that is being made. `tasks`: the most that were left since it began at `since`,
    seconds of a monotonic clock."""

    since: float
    tasks: int
    left: int

    @property
    def done(self) -> int:
        return self.tasks - self.left


@dataclass(frozen=True, slots=True)
class DatasetEnd:
    """A dataset that was made, or failed, after so many seconds."""

    name: str
    is_failed: bool
    seconds: float


class ProgressDisplay:
    """Writes the progress that `show` is given. Silent where a run has nothing to do."""

    def __init__(self, out: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._work: dict[str, DatasetWork] = {}
        self._ended: set[tuple[str, str]] = set()
        self._screen: Terminal | LineWriter = (
            Terminal(out) if is_fancy(out) else LineWriter(out, clock)
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._screen.stop()

    def show(self, progress: PassProgress) -> None:
        now = self._clock()
        for name, left in progress.tasks_left.items():
            if progress.states.get(name) == "building":  # a stale one waits for its inputs
                work = self._work.setdefault(name, DatasetWork(now, left, left))
                work.tasks = max(work.tasks, left)
        for name, work in self._work.items():
            work.left = progress.tasks_left.get(name, 0)
        self._screen.write_ends([*self._ends(progress, now)])
        self._screen.draw(progress, self._work)

    def _ends(self, progress: PassProgress, now: float) -> Iterator[DatasetEnd]:
        """Datasets that were made or failed since the last pass, each of them once. Those that wait,
        are paused or are gone just leave the screen."""
        for name in [*self._work]:
            state = progress.states.get(name)
            if state in MOVING:
                continue
            seconds = now - self._work.pop(name).since
            if state in ENDS and (name, state) not in self._ended:
                self._ended.add((name, state))
                yield DatasetEnd(name, state == "failed", seconds)


class LineWriter:
    """A line each ten seconds, for logs and pipes."""

    def __init__(self, out: TextIO, clock: Callable[[], float]) -> None:
        self._out, self._clock, self._last = out, clock, clock()

    def stop(self) -> None: ...

    def write_ends(self, ends: Sequence[DatasetEnd]) -> None: ...

    def draw(self, progress: PassProgress, work: Mapping[str, DatasetWork]) -> None:
        now = self._clock()
        if now < self._last + LINE_S:
            return
        self._last = now
        made, total = _counts(progress)
        parts = [f"{made} of {total} datasets are up to date", *_names(work), *_phase(progress)]
        self._out.write(f"headgate: {'; '.join(parts)}\n")
        self._out.flush()


class Terminal:
    """Bars that are drawn again. Datasets that have ended stay above them."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._bars: Bars | None = None
        self._lines: dict[str, TaskID] = {}

    def stop(self) -> None:
        if self._bars is not None:
            self._bars.stop()

    def write_ends(self, ends: Sequence[DatasetEnd]) -> None:
        """Once for all of them: each time, the bars are drawn again."""
        if self._bars is None or not ends:
            return
        lines = [self._line(end) for end in ends[:MOST_ENDS]]
        if len(ends) > MOST_ENDS:
            lines.append(f"  and {len(ends) - MOST_ENDS:,} more")
        self._bars.console.print("\n".join(lines), markup=False, highlight=False)

    def _line(self, end: DatasetEnd) -> str:
        if end.is_failed:
            return f"{'✗' if is_utf8(self._out) else '!!'} {end.name}  failed"
        return f"{'✓' if is_utf8(self._out) else 'ok'} {end.name}  {end.seconds:.1f} s"

    def draw(self, progress: PassProgress, work: Mapping[str, DatasetWork]) -> None:
        """The bars appear with the first task, so that a run with nothing to do stays silent."""
        if self._bars is None and not progress.under_way:
            return
        bars = self._bars = self._bars or _started(self._out)
        made, total = _counts(progress)
        self._update(bars, "datasets", made, total, "; ".join(_phase(progress)))
        names = [*work][:MOST_BARS]
        for name in self._lines.keys() - {"datasets", *names}:
            bars.remove_task(self._lines.pop(name))
        for name in names:
            self._update(bars, name, work[name].done, work[name].tasks, "tasks")

    def _update(self, bars: Bars, name: str, done: int, total: int, text: str) -> None:
        if name not in self._lines:
            self._lines[name] = bars.add_task(name, text="")
        bars.update(self._lines[name], completed=done, total=total, text=text)


def _started(out: TextIO) -> Bars:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
    )

    bars = Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[text]}", markup=False),
        console=Console(file=out),
        transient=True,
    )
    bars.start()
    return bars


def _counts(progress: PassProgress) -> tuple[int, int]:
    """Datasets that are up to date, and all but those that are paused or held."""
    counts = Counter(progress.states.values())
    total = sum(counts.values()) - counts["paused"] - counts["held"]
    return counts["up_to_date"], total


def _names(work: Mapping[str, DatasetWork]) -> Iterator[str]:
    """`shop.items 7/12 tasks, shop.days 0/3 tasks and 4 more`."""
    if work:
        first = [f"{n} {w.done}/{w.tasks} tasks" for n, w in [*work.items()][:MOST_NAMES]]
        rest = f" and {len(work) - MOST_NAMES} more" if len(work) > MOST_NAMES else ""
        yield f"now {', '.join(first)}{rest}"


def _phase(progress: PassProgress) -> Iterator[str]:
    if progress.spark_starting_s is not None and progress.spark_starting_s >= STARTING_S:
        yield f"{STARTING}, {progress.spark_starting_s:.0f} s"
    elif progress.publishing and not progress.under_way:
        yield "publishing"

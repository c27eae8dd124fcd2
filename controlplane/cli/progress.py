"""Progress on a terminal: one line that says what moves, drawn again as it changes.

Elsewhere there are lines about a slow start of Spark alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol, Self, TextIO

from controlplane.cli.output import is_fancy
from controlplane.core.model.driver_ends import STARTING
from controlplane.core.model.drivers import NOTICE_S, StartNotices

if TYPE_CHECKING:
    from rich.progress import Progress as Bars
    from rich.progress import TaskID


class PassProgress(Protocol):
    """The progress that the loop reports after each pass."""

    @property
    def under_way(self) -> int: ...

    @property
    def states(self) -> Mapping[str, Any]: ...

    @property
    def publishing(self) -> int: ...

    @property
    def spark_starting_s(self) -> float | None: ...


class DatasetBar:
    """A bar of the datasets that are made, with the number of tasks under way."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._bars: Bars | None = None
        self._task: TaskID | None = None
        self._notices = StartNotices()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._bars is not None:
            self._bars.stop()

    def show(self, state: PassProgress) -> None:
        """The bar appears with the first task, so that a run with nothing to do stays silent."""
        if not is_fancy(self._out):
            self._write_notice(state.spark_starting_s)
            return
        if self._bars is None and not state.under_way:
            return
        counts = Counter(state.states.values())
        done, total = counts["up_to_date"] + counts["paused"] + counts["held"], sum(counts.values())
        bars, task = self._started()
        bars.update(task, completed=done, total=total, text=_text(state))

    def _write_notice(self, starting_s: float | None) -> None:
        if sentence := self._notices.sentence(starting_s):
            self._out.write(f"headgate: {sentence}\n")
            self._out.flush()

    def _started(self) -> tuple[Bars, TaskID]:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeElapsedColumn,
        )

        if self._bars is None or self._task is None:
            columns = (
                TextColumn("datasets"),
                BarColumn(),
                MofNCompleteColumn(),
                TimeElapsedColumn(),
            )
            self._bars = Progress(
                *columns,
                TextColumn("{task.fields[text]}"),
                console=Console(file=self._out),
                transient=True,
            )
            self._bars.start()
            self._task = self._bars.add_task("", text="")
        return self._bars, self._task


def _text(state: PassProgress) -> str:
    if state.spark_starting_s is not None and state.spark_starting_s >= NOTICE_S:
        return f"{STARTING}, {state.spark_starting_s:.0f} s"
    if state.under_way:
        return f"{state.under_way} tasks under way"
    return "publishing" if state.publishing else ""

"""Answers about work as tables and lines: runs, tasks, attempts, and what commits took. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from controlplane.cli.output import Lines, TextTable, View, partition_name
from controlplane.core import durations

if TYPE_CHECKING:
    from controlplane.core.model.answers import (
        DatasetStatus,
        DatasetTimes,
        StatusAnswer,
        TargetStatus,
        TaskEntry,
        TasksAnswer,
    )
    from controlplane.core.model.answers.work import (
        AttemptEntry,
        PastRun,
        PastRunAnswer,
        PastRunsAnswer,
        RunStep,
        WorkSummary,
    )

RUN = re.compile(r"[a-z0-9_]+\.(rev\d+|[a-z0-9_]+:\d+)")
SLOW = "slow: a task of it took more than twice the median of its last attempts, and 10 s more"


def is_run(name: str) -> bool:
    """Whether it names a run, not a dataflow or a dataset."""
    return RUN.fullmatch(name) is not None


def runs(value: PastRunsAnswer) -> View:
    columns = (
        "run",
        "state",
        "began",
        "took",
        "datasets",
        "executed",
        "adopted",
        "failed",
        "because",
    )
    rows = tuple(_run_row(run) for run in value["items"])
    if not rows:
        return [Lines(("no run yet",))]
    slow = [f"slow: {run['id']}: {', '.join(run['slow'])}" for run in value["items"] if run["slow"]]
    return [TextTable(columns, rows), *_lines([*slow, *([SLOW] if slow else [])])]


def _run_row(run: PastRun) -> tuple[object, ...]:
    counts = run["tasks"]
    return (
        run["id"],
        run["state"],
        _time(run["began"]),
        duration(run["seconds"]) + (", slow" if run["slow"] else ""),
        len(run["datasets"]),
        counts["executed"],
        counts["adopted"],
        counts["failed"],
        run["reason"],
    )


def run(value: PastRunAnswer) -> View:
    """One run: what started it, its steps, its attempts."""
    ended = f"{_time(value['ended'])}" if value["ended"] else "not ended"
    counts = ", ".join(f"{n} {name}" for name, n in value["tasks"].items())
    head = (
        f"{value['id']} is {value['state']}: {value['reason']}",
        f"began {_time(value['began'])}, {ended}; took {duration(value['seconds'])}; {counts}",
    )
    columns = ("dataset", "state", "generation", "partitions", "rows", "adopted", *WORK_COLUMNS)
    steps = TextTable(columns, tuple(_step_row(step) for step in value["steps"]))
    tables = [
        Lines(head),
        steps,
        *_slow((step["dataset"], step["work"]) for step in value["steps"]),
    ]
    return [*tables, *attempts(value["attempts"])]


def _step_row(step: RunStep) -> tuple[object, ...]:
    head = (
        step["dataset"],
        step["state"],
        step["generation"],
        step["partitions"],
        step["rows"],
        step["adopted"],
    )
    return (*head, *_work_row(step["work"]))


def attempts(items: Sequence[AttemptEntry]) -> View:
    if not items:
        return [Lines(("no attempt is known",))]
    columns = (
        "attempt",
        "dataset",
        "kind",
        "outcome",
        "tasks",
        "began",
        "took",
        "waited",
        "rows",
        "read",
        "written",
    )
    rows = tuple(_attempt_row(item) for item in items)
    errors = [_error(item) for item in items if item["error"]]
    return [TextTable((*columns, "spark jobs", "stages"), rows), *_lines(errors), *_places(items)]


def _error(item: AttemptEntry) -> str:
    return f"{item['outcome']}: {item['attempt']}: {item['error']}; headgate logs {item['attempt']}"


def _attempt_row(item: AttemptEntry) -> tuple[object, ...]:
    return (
        item["attempt"],
        item["dataset"],
        item["kind"],
        item["outcome"],
        item["done"] if item["done"] else item["tasks"],
        _time(item["began"]),
        duration(item["seconds"]),
        duration(item["waited_s"]),
        item["rows"],
        size(item["bytes_read"]),
        size(item["bytes_written"]),
        item["spark_jobs"],
        item["spark_stages"],
    )


def _places(items: Iterable[AttemptEntry | WorkSummary]) -> list[TextTable | Lines]:
    """Addresses of Spark pages, each once."""
    pages = {f"Spark's pages: {item['spark_ui']}": None for item in items if item["spark_ui"]}
    logs = {f"Spark's event log: {item['event_log']}": None for item in items if item["event_log"]}
    return _lines([*pages, *logs])


def tasks(value: TasksAnswer) -> View:
    if not value["items"]:
        return [Lines(("it asks for no task at present: --ended shows attempts that are over",))]
    columns = (
        "partition",
        "kind",
        "state",
        "attempt",
        "since",
        "driver",
        "failures",
        "bytes",
        "priority",
    )
    rows = tuple(_task_row(item) for item in value["items"])
    unshown = value["total"] - len(rows)
    return [TextTable(columns, rows), *_lines([f"{unshown} more"] if unshown > 0 else [])]


def _task_row(item: TaskEntry) -> tuple[object, ...]:
    shown = (partition_name(item["partition"]), item["kind"], item["state"], item["attempt"])
    return (
        *shown,
        _time(item["since"]),
        item["driver"],
        item["failures"],
        size(item["bytes"]),
        item["priority"],
    )


# --- what commits took ------------------------------------------------------------------------------

WORK_COLUMNS = ("took", "work", "read", "written", "tasks", "spark jobs", "stages")


def times(value: StatusAnswer) -> View:
    """The last commit of each dataset and export, and its running task."""
    things = [
        thing for flow in value["dataflows"] for thing in (*flow["datasets"], *flow["targets"])
    ]
    with_times: list[tuple[str, DatasetTimes]] = [
        (thing["name"], thing["times"]) for thing in things if "times" in thing
    ]
    if not with_times:
        return []
    columns = ("name", *WORK_COLUMNS, "running")
    rows = tuple((name, *_work_row(of["last"]), _running(of)) for name, of in with_times)
    lasts = [(name, of["last"]) for name, of in with_times]
    places = _places(last for _, last in lasts if last)
    return [TextTable(columns, rows, "what the last commit took"), *_slow(lasts), *places]


def newest_attempts(answer: StatusAnswer) -> View:
    """The attempt of each dataset and export whose log says most: one that runs, that failed, or
    that led to the last commit."""
    things: list[DatasetStatus | TargetStatus] = []
    for flow in answer["dataflows"]:
        things += [*flow["datasets"], *flow["targets"]]
    rows = [
        (thing["name"], *attempt)
        for thing in things
        if (attempt := _newest_attempt(thing)) is not None
    ]
    if not rows:
        return [Lines(("no attempt is known yet",))]
    title = "`headgate logs ATTEMPT` shows a log"
    return [TextTable(("dataset", "state", "attempt", "at"), tuple(rows), title)]


def _newest_attempt(thing: DatasetStatus | TargetStatus) -> tuple[str, str, str] | None:
    """How it stands, its id, and when it began or ended where that is known."""
    times, error = thing.get("times"), thing["error"]
    if times is not None and times["running"] is not None:
        return "running", times["running"]["attempt"], times["running"]["since"]
    if error is not None and error["attempt"] is not None:
        return "failed", error["attempt"], ""
    if times is not None and times["last"] is not None:
        return "done", times["last"]["attempt"], times["last"]["ended"]
    return None


def _running(times: DatasetTimes) -> str:
    now = times["running"]
    if now is None:
        return ""
    return f"{now['attempts']} for {duration(now['seconds'])} ({now['attempt']})"


def _work_row(work: WorkSummary | None) -> tuple[object, ...]:
    if work is None:
        return ("",) * len(WORK_COLUMNS)
    return (
        duration(work["seconds"]) + (", slow" if work["slow"] else ""),
        duration(work["work_s"]),
        size(work["bytes_read"]),
        size(work["bytes_written"]),
        work["tasks"],
        work["spark_jobs"],
        work["spark_stages"],
    )


HISTORY_COLUMNS = ("took", "tasks", "read", "written")


def history_row(work: WorkSummary | None) -> tuple[object, ...]:
    if work is None:
        return ("",) * len(HISTORY_COLUMNS)
    took = duration(work["seconds"]) + (", slow" if work["slow"] else "")
    return (took, work["tasks"], size(work["bytes_read"]), size(work["bytes_written"]))


def _slow(works: Iterable[tuple[str, WorkSummary | None]]) -> list[TextTable | Lines]:
    return _lines(
        [f"slow: {name}: {work['slow']}" for name, work in works if work and work["slow"]]
    )


def took(work: WorkSummary | None) -> list[str]:
    """In a line or two."""
    if work is None:
        return []
    parts = [
        f"took: {duration(work['seconds'])} in {_many(work['attempts'], 'attempt')}",
        _many(work["tasks"], "task"),
        f"read {size(work['bytes_read'])}" if work["bytes_read"] is not None else "",
        f"wrote {work['rows']:,} rows, {size(work['bytes_written'])}",
        f"{_many(work['spark_jobs'], 'Spark job')}" if work["spark_jobs"] is not None else "",
        _many(work["spark_stages"], "stage") if work["spark_stages"] is not None else "",
        f"slow: {work['slow']}" if work["slow"] else "",
        f"log: headgate logs {work['attempt']}",
    ]
    return ["; ".join(part for part in parts if part)]


def _many(n: int, noun: str) -> str:
    return f"{n:,} {noun}" + ("" if n == 1 else "s")


# --- amounts ----------------------------------------------------------------------------------------


def duration(seconds: float | None) -> str:
    """Nothing where it is not known."""
    return "" if seconds is None else durations.duration(seconds)


def size(number: float | None) -> str:
    """Bytes in the unit that leaves fewer than four digits."""
    if number is None:
        return ""
    for unit in ("B", "kB", "MB", "GB"):
        if number < 1000:
            return (
                f"{number:.0f} {unit}" if unit == "B" or number >= 100 else f"{number:.1f} {unit}"
            )
        number /= 1000
    return f"{number:,.1f} TB"


def _time(at: str | None) -> str:
    """To the second, in UTC."""
    return f"{at[:10]} {at[11:19]}Z" if at else ""


def _lines(lines: Sequence[str]) -> list[TextTable | Lines]:
    return [Lines(tuple(lines))] if lines else []

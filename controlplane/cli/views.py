"""From answers of the API to tables and lines for people. Pure; one function per kind of answer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, TypeAlias

from controlplane.cli import plan_views, source_views, work_views
from controlplane.cli.output import Lines, TextTable, View, partition_name, problem_lines
from controlplane.cli.places import place_of
from controlplane.cli.status_notes import notes

if TYPE_CHECKING:  # a command that only says what it takes needs none of them
    from controlplane.core.model.answers import (
        AllChecksAnswer,
        ApplyAnswer,
        ChecksAnswer,
        ConnectionEntry,
        DatasetStatus,
        ErrorReport,
        ExportStatus,
        FsckAnswer,
        HistoryAnswer,
        InputMode,
        LeaderStatus,
        PlanAnswer,
        PlanItem,
        RunAnswer,
        S3KeyEntry,
        Standstill,
        StatusAnswer,
        TargetStatus,
        TokenEntry,
    )
    from controlplane.core.model.answers.datasets import Changes
    from controlplane.core.model.answers.shares import RecipientEntry
    from controlplane.core.model.check_results import CheckResult

Row: TypeAlias = Mapping[str, object]
DATASET_COLUMNS = ("name", "state", "generation", "partitions", "rows")
TARGET_COLUMNS = ("name", "state", "synced_generation", "target")
WHOLE_INPUTS_SHOWN = 20
PARTITIONS_SHOWN = 3
MESSAGE_LINES = 12
HELD_UP = ("waiting", "held", "blocked")  # states that say nothing of what would end them
SHORTEST_LATENESS_S = 10.0  # less is not worth a line


def summary(value: RunAnswer) -> View:
    """The tasks, datasets and targets of a run."""
    tasks = value["tasks"]
    counts = ", ".join(f"{count} {name}" for name, count in tasks.items())
    spark = (
        "Spark started"
        if value["spark_started"]
        else "Spark was running"
        if tasks["executed"]
        else "no Spark"
    )
    head = f"{value['state']} in {value['wall_s']:.1f} s: {counts}; {spark}"
    return [
        *_things(value["datasets"], value["targets"], is_led=False),
        *_errors((e["dataset"], e) for e in value["errors"]),
        Lines((head,)),
    ]


def status(value: StatusAnswer, *, shows_all: bool = True, shows_leader: bool = True) -> View:
    """State by dataflow, and drivers with a problem. Without `shows_all`, datasets and exports that
    are fine are counted. `shows_leader`: also the process that plans."""
    parts: list[TextTable | Lines] = []
    for flow in value["dataflows"]:
        title = f"{flow['name']} (revision {flow['revision']}): {flow['state']}"
        head = (title, flow["problem"]) if "problem" in flow else (title,)
        is_led = value.get("leader") is not None
        parts += [
            Lines(head),
            *_things(flow["datasets"], flow["targets"], is_led=is_led, shows_all=shows_all),
        ]
    sources = {
        d["name"]: d["as_of"]
        for flow in value["dataflows"]
        for d in flow["datasets"]
        if "as_of" in d
    }
    if looked := tuple(source_views.times(sources)):
        parts.append(Lines(looked))
    if due := tuple(_due_lines(value)):
        parts.append(Lines(due))
    drivers = [d for d in value["drivers"] if d.get("reason")]
    parts += (
        [_table("drivers", ("pool", "kind", "state", "reason", "at"), drivers)] if drivers else []
    )
    still = value["standstill"]
    # A home of `headgate run` alone never had a scheduler
    if still is not None and still["since"] is not None:
        parts.append(Lines((_standstill(still, still["since"]),)))
    leader = value.get("leader")
    if shows_leader and leader:
        parts.append(Lines((_leader(leader),)))
    if export := value.get("openlineage"):
        parts.append(Lines((_export(export),)))
    things = [
        thing for flow in value["dataflows"] for thing in (*flow["datasets"], *flow["targets"])
    ]
    errors = ((thing["name"], thing["error"]) for thing in things)
    return [*parts, *_errors(errors)] or [
        Lines(("nothing is declared here yet: headgate apply FILE",))
    ]


def _due_lines(answer: StatusAnswer) -> Iterator[str]:
    """When sources are looked at by their cron expressions."""
    for flow in answer["dataflows"]:
        for dataset in flow["datasets"]:
            listing = dataset.get("listing")
            if listing is not None and "cron" in listing and listing["due"] is not None:
                yield source_views.next_look(dataset["name"], listing["due"])


def _export(export: ExportStatus) -> str:
    behind = f"OpenLineage: {export['behind']} events behind"
    return (
        behind if export["error"] is None else f"{behind}, the last try failed: {export['error']}"
    )


def _leader(leader: LeaderStatus) -> str:
    since = datetime.fromisoformat(leader["since"]).timestamp()
    return f"{leader['holder']} leads since {time_of(since)}"


def _standstill(still: Standstill, since: str) -> str:
    reason = f" ({still['reason']})" if still["reason"] else ""
    when = time_of(datetime.fromisoformat(since).timestamp())
    return f"{still['sentence']} since {when}{reason}: {still['command']}"


def _things(
    datasets: Sequence[DatasetStatus],
    targets: Sequence[TargetStatus],
    *,
    is_led: bool,
    shows_all: bool = True,
) -> list[TextTable | Lines]:
    """`is_led`: a process has sources listed. Where there is none, no listing is late."""
    parts: list[TextTable | Lines] = []
    listed = [d for d in datasets if shows_all or not _is_fine(d)]
    exports = [t for t in targets if shows_all or t["state"] != "up_to_date"]
    if fine := len(datasets) + len(targets) - len(listed) - len(exports):
        parts.append(Lines((f"{fine} up to date: `headgate status --all` lists them",)))
    if listed:
        parts.append(_table("", DATASET_COLUMNS, listed))
    if warnings := [d for d in datasets if d.get("checks")]:
        parts.append(Lines(tuple(line for d in warnings for line in _check_lines(d))))
    if late := [line for d in datasets if is_led for line in _late_lines(d)]:
        parts.append(Lines(tuple(late)))
    if lags := [line for d in datasets for line in _lag_lines(d)]:
        parts.append(Lines(tuple(lags)))
    if marks := [d for d in datasets if "watermark" in d]:
        parts.append(Lines(tuple(f"{d['name']}: {d['watermark']['sentence']}" for d in marks)))
    if lines := tuple(notes(datasets)):
        parts.append(Lines(lines))
    if exports:
        parts.append(_table("", TARGET_COLUMNS, exports))
    if reasons := _reasons([*datasets, *targets]):
        parts.append(Lines(tuple(reasons)))
    return parts


def _is_fine(dataset: DatasetStatus) -> bool:
    """Up to date, with data that is young enough, and without a warning."""
    age = dataset.get("freshness")
    is_late = age is not None and age["late"]
    return dataset["state"] == "up_to_date" and not is_late and not dataset["checks"]


def _reasons(things: Sequence[DatasetStatus | TargetStatus]) -> list[str]:
    """Why things are held up; not of those that only follow another one of them."""
    names = {t["name"] for t in things}
    held = [t for t in things if t["state"] in HELD_UP and not t.get("error")]
    reasons = [(t, t.get("reason") or "") for t in held]
    return [
        f"{t['state']}: {t['name']}: {r}"
        for t, r in reasons
        if r and r.partition(" ")[0] not in names
    ]


def _check_lines(dataset: DatasetStatus) -> list[str]:
    return [
        f"{state}: {dataset['name']}: {name}"
        for state, names in dataset["checks"].items()
        for name in names
    ]


def _late_lines(dataset: DatasetStatus) -> list[str]:
    """The reason of a source whose listing is late by more than a period."""
    listing = dataset.get("listing")
    if listing is None or listing["behind_s"] <= max(
        listing["refresh_s"] or 0.0, SHORTEST_LATENESS_S
    ):
        return []
    last = f"last listed {listing['at']}" if listing["at"] else "never listed"
    state = (
        f"a worker is at it since {listing['since']}" if listing["since"] else "no worker is at it"
    )
    return [
        f"late: {dataset['name']}: its listing is {listing['behind_s']:.0f} s behind; {last}; {state}"
    ]


def _lag_lines(dataset: DatasetStatus) -> list[str]:
    """A line for a stream with rows that are not committed, or not known: also where its last
    listing failed."""
    lag = dataset.get("lag")
    is_listed = dataset.get("as_of") is not None
    if lag is None or (lag["rows"] == 0 and is_listed):
        return []
    return [f"lag: {dataset['name']}: {lag['sentence']}"]


def _errors(errors: Iterable[tuple[str, ErrorReport | None]]) -> list[TextTable | Lines]:
    """Place, Spark's condition and first lines of each dataset's error; the log has the rest."""
    lines = tuple(line for dataset, error in errors for line in failure(error, dataset))
    return [Lines(lines)] if lines else []


def _table(title: str, columns: Sequence[str], rows: Iterable[Row]) -> TextTable:
    heads = tuple(c.replace("_", " ") for c in columns)
    return TextTable(heads, tuple(tuple(row.get(c) for c in columns) for row in rows), title)


def plan(value: PlanAnswer) -> View:
    """The work that would run, and the cause of each item."""
    sources = (*source_views.lines(value["sources"]), *held(value), *_failed(value))
    sources += tuple(plan_views.driver_lines(value))
    if not value["items"]:
        if value.get("failed") or value.get("not_compiled"):
            return [Lines(("nothing would run", *sources))]
        is_known = not any(source["problem"] for source in value["sources"])
        return [
            Lines(("nothing to do" if is_known else "nothing to do, as far as is known", *sources))
        ]
    columns = ("dataset", "action", "cause", "certain", "tasks", "partitions")
    rows = tuple(
        (
            i["dataset"],
            i["action"],
            i.get("reason") or i["cause"],
            _yes(i["certain"]),
            i["tasks"],
            _keys(i),
        )
        for i in value["items"]
    )
    total = f"{value['certain']} tasks for certain, {value['possible']} possible"
    notices = problem_lines(value.get("notices") or ())
    lines = [total, *plan_views.cost_lines(value), *_whole_inputs(value), *sources, *notices]
    return [TextTable(columns, rows), Lines(tuple(lines))]


def _whole_inputs(value: PlanAnswer) -> list[str]:
    """Inputs of what will run that are read whole, or may be."""
    modes = {item["dataset"]: item["modes"] for item in value["items"]}
    lines = [
        f"{dataset} reads {reading(name, mode)}"
        for dataset, inputs in modes.items()
        for name, mode in inputs.items()
        if mode["mode"] in ("all", "undecided")
    ]
    unshown = len(lines) - WHOLE_INPUTS_SHOWN
    return (
        [*lines[:WHOLE_INPUTS_SHOWN], f"... {unshown} more; why --all DATASET shows them"]
        if unshown > 0
        else lines
    )


def reading(name: str, mode: InputMode) -> str:
    """How an input is read: `orders by: ...`, `orders whole because ...; to be read by day,
    ...`."""
    if mode["mode"] != "all":
        return f"{name} {mode['mode']}: {mode['reason']}"
    cure = f"; {mode['cure']}" if "cure" in mode else ""
    return f"{name} whole because {mode['reason'].removeprefix('`all`: ')}{cure}"


def held(value: PlanAnswer) -> Iterator[str]:
    """Datasets for which nothing is planned, since they were rolled back."""
    for hold in value.get("held") or ():
        why = f": {hold['reason']}" if hold["reason"] else ""
        since = time_of(datetime.fromisoformat(hold["since"]).timestamp())
        yield f"held: {hold['dataset']}: at generation {hold['generation']} by {hold['actor']} since {since}{why}"


def _failed(value: PlanAnswer) -> Iterator[str]:
    """Dataflows and datasets of which nothing runs before an edit or a retry."""
    for broken in value.get("not_compiled") or ():
        yield f"failed: {broken['dataflow']}: {broken['sentence']}"
    for failure in value.get("failed") or ():
        yield f"failed: {failure['sentence']}: {failure['command']}"


def _yes(is_so: bool) -> str:
    return "yes" if is_so else "possibly"


def _keys(item: PlanItem) -> str:
    keys = item["partitions"]
    shown = ", ".join(map(partition_name, keys[:PARTITIONS_SHOWN]))
    return shown + (
        f", ... {len(keys) - PARTITIONS_SHOWN} more" if len(keys) > PARTITIONS_SHOWN else ""
    )


def applied(value: ApplyAnswer) -> View:
    revisions = tuple(
        f"{name} is at revision {number}" for name, number in value["revisions"].items()
    )
    return [Lines(revisions), *plan_views.changes(value["plan"]), *plan(value["plan"])]


def connection(answer: ConnectionEntry) -> str:
    """One place that was tried."""
    error = answer.get("error")
    if not error:
        return f"{answer['component']}: connected to {answer['place']}"
    return "; ".join(
        [
            f"{answer['component']}: no connection to {answer['place'] or 'its place'}",
            *failure(error),
        ]
    )


def failure(error: Row | None, subject: str | None = None, dataset: str = "") -> list[str]:
    """An ErrorReport or a ConnectionFault, which has fewer fields. `dataset`: where it is not that
    of the subject."""
    if not error:
        return []
    place = f"{place_of(error, subject or dataset)}: " if error.get("file") else ""
    names = " ".join(str(error[k]) for k in ("condition", "sqlstate") if error.get(k))
    head = f"error: {place}{f'{subject}: ' if subject else ''}{names or error.get('code', '')}"
    log = [f"  log: headgate logs {error['attempt']}"] if error.get("attempt") else []
    return [
        head,
        *(f"  {line}" for line in str(error["message"]).splitlines()[:MESSAGE_LINES]),
        *log,
    ]


def history(value: HistoryAnswer) -> View:
    columns = ("at", "generation", "cause", "partitions", "rows", "revision")
    rows = tuple(
        (
            time_of(i.get("at")),
            *(i.get(c) for c in columns[1:]),
            _changed(i.get("changes"), i.get("same_as")),
            *work_views.history_row(i.get("work")),
        )
        for i in value["items"]
    )
    return [TextTable((*columns, "changed", *work_views.HISTORY_COLUMNS), rows)]


def _changed(changes: Changes | None, same_as: int | None) -> str:
    """Partitions, as `+1 ~2 -3`; and the generation that has the same rows."""
    parts = []
    if changes is not None:
        counts = (("+", changes["added"]), ("~", changes["changed"]), ("-", changes["removed"]))
        parts = [f"{sign}{count}" for sign, count in counts if count]
        parts += [] if changes["is_all"] else ["..."]
    return " ".join([*parts, *([] if same_as is None else [f"= {same_as}"])])


def checks(value: ChecksAnswer) -> View:
    """Checks of a generation, and of rows that were rejected."""
    parts: list[TextTable | Lines] = []
    if value["items"]:
        parts.append(_checks(f"generation {value['generation']}", value["items"]))
    if value["rejected"]:
        parts.append(_checks("rows that were rejected", value["rejected"]))
    return parts or [
        Lines(("nothing is expected of it, or nothing was looked at yet: headgate why DATASET",))
    ]


def all_checks(answer: AllChecksAnswer) -> View:
    """Checks of all datasets, each under its name."""
    parts: list[TextTable | Lines] = []
    for checked in answer["items"]:
        parts += [Lines((f"{checked['dataset']}: {checked['state']}",)), *checks(checked)]
    return parts or [Lines(("nothing is expected of any dataset yet: `expect` in a blueprint",))]


def _checks(title: str, items: Sequence[CheckResult]) -> TextTable:
    columns = ("check", "on fail", "state", "rows", "failing", "example")
    rows = tuple(
        (i["name"], i["on_fail"], i["state"], i["rows"], i["failing"], _example(i)) for i in items
    )
    return TextTable(columns, rows, title)


def _example(item: CheckResult) -> str:
    example = item["examples"][0] if item["examples"] else None
    if example is None:
        return ""
    place = f" in {partition_name(example['partition'])}" if example["partition"] else ""
    return f"{example['row']}{place}"


def token_state(item: TokenEntry | S3KeyEntry | RecipientEntry) -> str:
    return "revoked" if item.get("revoked") else "expired" if item.get("expired") else "live"


def findings(value: FsckAnswer) -> View:
    """Repairs, then findings."""
    done = () if value.get("repaired") is None else (Lines(tuple(_repaired(**value["repaired"]))),)
    if not value["findings"]:
        return [*done, Lines(("nothing is wrong",))]
    incomplete = () if value["complete"] else (Lines(("there may be more",)),)
    return [*done, _table("", ("code", "where", "what", "fix"), value["findings"]), *incomplete]


def _repaired(fragments: int, datasets: Sequence[str]) -> Iterator[str]:
    yield f"fragments given up, since their files are gone or damaged: {fragments}"
    yield from (f"{dataset}: what it lacks is made again" for dataset in datasets)


def records(rows: Sequence[Row], columns: Sequence[str]) -> View:
    return [TextTable(tuple(columns), tuple(tuple(row.get(c) for c in columns) for row in rows))]


def fields(value: Row) -> View:
    """Any small answer: its fields, one a line."""
    return [
        Lines(
            tuple(f"{k.replace('_', ' ')}: {_text(v)}" for k, v in value.items() if v is not None)
        )
    ]


def _text(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} = {part}" for name, part in value.items())
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def time_of(at: float | str | None) -> str:
    if isinstance(at, int | float):
        return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%SZ")
    return at or ""

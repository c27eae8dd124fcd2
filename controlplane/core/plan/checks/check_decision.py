"""Deciding about expectations: a generation is committed only after all of its checks have passed.

    _rows_of       the decision commits no rows, and none stand   -> the decision as it is
      | rows
    _answers       of each check, as far as memory has them
      |
    some are missing                                              -> RunChecks: tasks that look at rows
      | all answers
    a check fails                                                 -> failed: nothing is committed
      |
    all hold                                                      -> the decision, with results to be remembered

How a check gets its answer:

    rows: ...      counted from the state
    unique: ...    one task over all rows
    a condition    remembered for this root                       -> the answer
                   remembered for the present root, or there are
                   few partitions                                 -> what differs is looked at (_by_difference)
                   else                                           -> window by window, in order of keys (_in_order)

What a check found is remembered by partition and, summed up, by root.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TypeAlias

from controlplane.core import tree
from controlplane.core.compile import ids
from controlplane.core.compile.compiled_checks import (
    CompiledCheck,
    dropped_key,
    part_key,
    record_key,
    whole_key,
)
from controlplane.core.compile.nodes import Source, Transform
from controlplane.core.model.check_results import CheckFinding, CheckResult
from controlplane.core.model.jobs import FragmentsSpec, Spec, StoredCheckJob, StoredJob
from controlplane.core.model.memos import Memo, Memos, check_answer_in, dropped_in, results_in
from controlplane.core.model.states import Cause, State
from controlplane.core.model.tasks import Task
from controlplane.core.plan import lookups, windows
from controlplane.core.plan.checks import check_sums
from controlplane.core.plan.checks.check_sums import NOTHING
from controlplane.core.plan.lookups import Deciding
from controlplane.core.plan.plan_values import (
    ROW_COST,
    Commit,
    Decision,
    Item,
    Keep,
    Planning,
    RunChecks,
    Status,
    in_words,
)
from controlplane.core.plan.work_keys import Keys, lacking, listed, union
from dataplane.contract.identity import schema_id, slot_id
from dataplane.contract.schemas import Schema

WAITING = "what is expected of its rows is looked at"

Parts: TypeAlias = list[tuple[str, CheckFinding]]  # by key of the partition
Answers: TypeAlias = dict[str, CheckFinding]  # by name of the check


def gate_on_checks(
    planning: Planning, node: Source | Transform, decision: Decision
) -> Deciding[Decision]:
    """The decision, if the expectations hold on the rows that it commits, or lets stand. Else what
    to do about it."""
    if not node.checks:
        return decision
    if node.output:
        return _second_output(node, decision)
    rows = _rows_of(planning, node, decision)
    if rows is None:
        return decision
    memos = yield from lookups.memos(_first_keys(rows, decision))
    progress = _Progress()
    answers = yield from _answers(rows, memos, progress)
    if progress.tasks or not progress.is_whole:
        return (yield from _waiting(rows, progress, decision))
    return _judged(rows, answers, progress.notes, memos, decision)


def _second_output(node: Source | Transform, decision: Decision) -> Decision:
    """For a dataset of quarantined rows: tasks and errors are those of the dataset that they come
    from."""
    items = tuple(replace(item, tasks=0) for item in decision.items)
    decision = replace(decision, items=items)
    if decision.status != "failed":
        return decision
    return replace(
        decision,
        status="blocked",
        blocked_by=node.maker,
        reason=in_words(node.maker, "failed"),
        error=None,
    )


# --- which rows -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _CheckedRows:
    """Rows to check: those of `state`, which differ from those of `base`, if any, that were checked
    before."""

    planning: Planning
    node: Source | Transform
    state: State
    base: State | None

    @property
    def checks(self) -> list[CompiledCheck]:
        return [check for check in self.node.checks if not check.is_drop]

    def schema(self, check: CompiledCheck) -> Schema:
        """The columns that the check looks at."""
        return check.read_schema(self.state.schema)

    def key(self, check: CompiledCheck, of: State) -> bytes:
        """Under which it is remembered what the check found in a whole state."""
        return whole_key(check, of.root, schema_id(check.read_schema(of.schema)))

    @property
    def record(self) -> bytes:
        """Under which the results of this generation are remembered."""
        return record_key(self.planning.branch, self.node.dataset, self.state.generation)


def _rows_of(
    planning: Planning, node: Source | Transform, decision: Decision
) -> _CheckedRows | None:
    present = planning.state(node.dataset)
    if isinstance(decision.step, Commit):
        return _CheckedRows(planning, node, decision.step.state, present)
    # Rows that stand may not have been looked at: by a check that was added, for example.
    is_standing = isinstance(decision.step, Keep) and decision.status == "up_to_date"
    if not is_standing or present is None:
        return None
    if all(check.is_drop for check in node.checks):
        return None
    return _CheckedRows(planning, node, present, None)


def _first_keys(rows: _CheckedRows, decision: Decision) -> list[bytes]:
    """All that may be remembered of these rows as a whole."""
    states = [state for state in (rows.state, rows.base) if state is not None]
    keys: list[bytes] = []
    for check in rows.checks:
        if check.predicate is not None:
            keys += [rows.key(check, state) for state in states]
        if check.of.unique:
            keys.append(_unique_key(rows, check))
    keys += [dropped_key(task) for task in _entered(rows, decision)]
    keys.append(rows.record)
    return keys


def _entered(rows: _CheckedRows, decision: Decision) -> Sequence[bytes]:
    """The tasks of the partitions that come with this generation, where rows may have been
    dropped."""
    if not isinstance(decision.step, Commit):
        return ()
    if not any(check.is_drop for check in rows.node.checks):
        return ()
    entered = decision.step.entered or {}
    tasks = tuple(entered.values())
    if not _is_one_task(rows.node):
        return tasks
    return tuple(dict.fromkeys(tasks))  # it dropped its rows once, for all of the partitions


def _is_one_task(node: Source | Transform) -> bool:
    """One task gives all partitions."""
    if not node.key:
        return False
    return not any(slot.mode == "by" for slot in node.slots)


# --- answers --------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Progress:
    """What comes of looking for answers: tasks to ask for, and memos that follow from other
    memos."""

    tasks: dict[bytes, Task] = field(default_factory=dict)
    jobs: dict[bytes, StoredJob] = field(default_factory=dict)
    notes: dict[bytes, Memo] = field(default_factory=dict)
    is_whole: bool = True  # all that is missing is in `tasks`

    def ask(
        self,
        rows: _CheckedRows,
        job: StoredCheckJob,
        key: bytes,
        partition: str,
        count: int,
        spec: Spec,
    ) -> None:
        """Have a task that looks at `count` rows and answers `key`."""
        node = rows.node
        of = node.component
        job_id = ids.job_id(job)
        self.jobs[job_id] = job
        self.tasks[key] = Task(
            key,
            "check",
            node.dataset,
            partition=partition,
            job=job_id,
            spec=spec,
            size_bytes=count * ROW_COST,
            priority=of.priority,
            size=of.resources,
        )


def _job(rows: _CheckedRows, check: CompiledCheck) -> StoredCheckJob:
    return {
        "name": check.name,
        "check": check.of.check,
        "unique": list(check.of.unique),
        "spark": rows.node.spark,
        "schema": rows.schema(check),
        "shown": rows.state.schema,
    }


def _answers(rows: _CheckedRows, memos: Memos, progress: _Progress) -> Deciding[Answers]:
    """The answers of the checks that have one by now, by name."""
    answers: Answers = {}
    conditions: list[CompiledCheck] = []
    for check in rows.checks:
        if check.of.rows is not None:
            answer: CheckFinding | None = check_sums.of_bounds(check.of.rows, rows.state.rows)
        elif check.of.unique:
            answer = _unique(rows, check, memos, progress)
        else:
            answer = _of_all_rows(memos, rows.key(check, rows.state))
            if answer is None:
                conditions.append(check)
        if answer is not None:
            answers[check.name] = answer
    if conditions:
        answers |= yield from _conditions(rows, conditions, memos, progress)
    return answers


def _unique(
    rows: _CheckedRows, check: CompiledCheck, memos: Memos, progress: _Progress
) -> CheckFinding | None:
    key = _unique_key(rows, check)
    if key in memos:
        return check_answer_in(memos[key])
    if rows.state.rows == 0:
        return NOTHING
    job: StoredCheckJob = {**_job(rows, check), "shared": {"": rows.state.root.hex()}}
    progress.ask(rows, job, key, "", rows.state.rows, {})
    return None


def _unique_key(rows: _CheckedRows, check: CompiledCheck) -> bytes:
    content = tree.totals(rows.planning.nodes, rows.state.root).content
    return part_key(check, slot_id(content, rows.schema(check)))


def _of_all_rows(memos: Memos, key: bytes) -> CheckFinding | None:
    """The remembered answer for a whole state; None also if only some of its partitions are in
    it."""
    answer = _answer_in(memos, key)
    if answer is not None and answer.get("after") is None:
        return answer
    return None


def _answer_in(memos: Memos, key: bytes) -> CheckFinding | None:
    return check_answer_in(memos[key]) if key in memos else None


# --- conditions: checks by row --------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Difference:
    """A check whose answer for the rows at `root` is known: the difference to the new rows is
    checked."""

    check: CompiledCheck
    root: bytes
    answer: CheckFinding


def _conditions(
    rows: _CheckedRows, checks: Sequence[CompiledCheck], memos: Memos, progress: _Progress
) -> Deciding[Answers]:
    is_small = rows.state.partitions <= rows.planning.exact
    differences: list[_Difference] = []
    rest: list[CompiledCheck] = []
    for check in checks:
        from_base = _from_base(rows, check, memos)
        if from_base is not None:
            differences.append(from_base)
        elif is_small:
            differences.append(_Difference(check, tree.EMPTY_ROOT, NOTHING))
        else:
            rest.append(check)
    answers: Answers = {}
    if differences:
        answers |= yield from _by_difference(rows, differences, progress)
    for check in rest:
        start = _answer_in(memos, rows.key(check, rows.state))
        answer = yield from _in_order(rows, check, start, progress)
        if answer is not None:
            answers[check.name] = answer
    return answers


def _from_base(rows: _CheckedRows, check: CompiledCheck, memos: Memos) -> _Difference | None:
    """On top of what the check found in the present rows, where it looks at the new rows in the
    same way."""
    base = rows.base
    if base is None or check.read_schema(base.schema) != rows.schema(check):
        return None
    answer = _of_all_rows(memos, rows.key(check, base))
    if answer is None:
        return None
    return _Difference(check, base.root, answer)


def _by_difference(
    rows: _CheckedRows, differences: Sequence[_Difference], progress: _Progress
) -> Deciding[Answers]:
    roots = list(dict.fromkeys(difference.root for difference in differences))
    diffs = yield from lookups.diffs([(root, rows.state.root) for root in roots])
    changes_of = dict(zip(roots, diffs, strict=True))
    keys_of: dict[str, dict[tree.Entry, bytes]] = {}
    memo_keys: set[bytes] = set()
    for difference in differences:
        keys = _part_keys(rows, difference.check, _entries(changes_of[difference.root]))
        keys_of[difference.check.name] = keys
        memo_keys.update(keys.values())
    memos = yield from lookups.memos(list(memo_keys))
    answers: Answers = {}
    for difference in differences:
        keys, changes = keys_of[difference.check.name], changes_of[difference.root]
        missing = _missing(_entries(changes), keys, memos)
        if missing:
            _ask_parts(rows, difference.check, missing, keys, progress)
            continue
        answer = _moved(difference.answer, changes, keys, memos)
        answers[difference.check.name] = answer
        progress.notes[rows.key(difference.check, rows.state)] = answer
    return answers


def _moved(
    answer: CheckFinding,
    changes: Sequence[tree.EntryChange],
    keys: Mapping[tree.Entry, bytes],
    memos: Memos,
) -> CheckFinding:
    """An answer without the findings in partitions as they were, and with the findings in them as
    they are."""
    before: Parts = []
    after: Parts = []
    for change in changes:
        if change.before is not None and change.before in keys:
            before.append((change.key, check_answer_in(memos[keys[change.before]])))
        if change.after is not None and change.after in keys:
            after.append((change.key, check_answer_in(memos[keys[change.after]])))
    changed = {change.key for change in changes}
    rest = check_sums.without(answer, before, changed)
    return check_sums.plus(rest, after)


def _in_order(
    rows: _CheckedRows, check: CompiledCheck, start: CheckFinding | None, progress: _Progress
) -> Deciding[CheckFinding | None]:
    """So many partitions that one pass does not look at all of them: each goes on where the last
    one came to. `start` is the answer for the partitions up to there."""
    limit = windows.limit(rows.planning, rows.state.partitions)
    if limit == 0:
        progress.is_whole = False
        return None
    key = rows.key(check, rows.state)
    at, is_gapless = yield from _further(rows, check, start, progress, limit)
    if is_gapless and at["after"] is None:
        progress.notes[key] = at
        return at
    progress.is_whole = False
    if at != start and at.get("after") is not None:
        progress.notes[key] = at
    return None


def _further(
    rows: _CheckedRows,
    check: CompiledCheck,
    start: CheckFinding | None,
    progress: _Progress,
    limit: int,
) -> Deciding[tuple[CheckFinding, bool]]:
    """The answer for more partitions, until `limit` tasks are missing; and whether none of them was
    missing."""
    at = start or NOTHING
    is_gapless = True
    most = len(progress.tasks) + limit
    entries = _entries_after(rows, start)
    for _ in range(windows.CHUNKS):
        chunk = list(islice(entries, windows.CHUNK))
        is_last = len(chunk) < windows.CHUNK
        keys = _part_keys(rows, check, chunk)
        memos = yield from lookups.memos(list(keys.values()))
        missing = _missing(chunk, keys, memos)
        _ask_parts(rows, check, missing, keys, progress)
        # The answer is that of all partitions up to a key: it ends before the first that is
        # missing.
        is_gapless = is_gapless and not missing
        if is_gapless:
            at = check_sums.plus(at, _of_parts(chunk, keys, memos))
            at["after"] = None if is_last else chunk[-1].key
        if is_last or len(progress.tasks) >= most:
            break
    return at, is_gapless


def _of_parts(
    entries: Iterable[tree.Entry], keys: Mapping[tree.Entry, bytes], memos: Memos
) -> Parts:
    """The findings in these partitions, by key; none for those without rows."""
    return [(entry.key, check_answer_in(memos[keys[entry]])) for entry in entries if entry in keys]


def _entries_after(rows: _CheckedRows, start: CheckFinding | None) -> Iterator[tree.Entry]:
    """The partitions that are not in an answer yet."""
    last = start.get("after") if start else None
    for entry in tree.scan(rows.planning.nodes, rows.state.root, last or ""):
        if entry.key != last:
            yield entry


# --- partitions -----------------------------------------------------------------------------------


def _entries(changes: Iterable[tree.EntryChange]) -> list[tree.Entry]:
    both = (entry for change in changes for entry in (change.before, change.after))
    return [entry for entry in both if entry is not None]


def _part_keys(
    rows: _CheckedRows, check: CompiledCheck, entries: Iterable[tree.Entry]
) -> dict[tree.Entry, bytes]:
    """The memo keys of a check's findings by partition; only partitions with rows have one."""
    schema = rows.schema(check)
    keys: dict[tree.Entry, bytes] = {}
    for entry in entries:
        if entry.content.rows:
            keys[entry] = part_key(check, slot_id(entry.content, schema))
    return keys


def _missing(
    entries: Iterable[tree.Entry], keys: Mapping[tree.Entry, bytes], memos: Memos
) -> list[tree.Entry]:
    return [entry for entry in entries if entry in keys and keys[entry] not in memos]


def _ask_parts(
    rows: _CheckedRows,
    check: CompiledCheck,
    entries: Sequence[tree.Entry],
    keys: Mapping[tree.Entry, bytes],
    progress: _Progress,
) -> None:
    """Have a task for each of these partitions."""
    job = _job(rows, check)
    for entry in entries:
        spec: FragmentsSpec = {"slots": {"": [entry.fragment.hex()]}}
        progress.ask(rows, job, keys[entry], entry.key, entry.content.rows, spec)


# --- decisions ------------------------------------------------------------------------------------


def _waiting(rows: _CheckedRows, progress: _Progress, decision: Decision) -> Deciding[Decision]:
    """Answers are incomplete: request the missing ones."""
    queued = yield from lookups.tasks(list(progress.tasks))
    # Others of the same round were looked up with them
    own = [queued[key] for key in progress.tasks if key in queued]
    failed = [task for task in own if task.state == "failed"]
    status: Status = "building" if own else "stale"
    error = None
    if failed and len(failed) == len(progress.tasks):
        status = "failed"
        error = failed[0].error
    cause: Cause = "logic"  # of the check
    pending: Keys | None = None  # rows that stand go on to stand
    if isinstance(decision.step, Commit):
        cause = rows.state.cause
        pending = union([item.keys for item in decision.items])
    items = decision.items
    if not items:
        items = (Item(rows.node.dataset, "check", cause, False, 0, _partitions(rows, progress)),)
    limit = windows.limit(rows.planning, len(progress.tasks))
    tasks = tuple(islice(progress.tasks.values(), limit))
    step = RunChecks(tasks, progress.jobs, progress.notes)
    return Decision(rows.node.dataset, status, step, items, WAITING, error=error, pending=pending)


def _partitions(rows: _CheckedRows, progress: _Progress) -> Keys:
    if progress.is_whole:
        return listed(sorted({task.partition for task in progress.tasks.values()}))
    return lacking(rows.planning.nodes, rows.state.root)


def _judged(
    rows: _CheckedRows, answers: Answers, notes: Memos, memos: Memos, decision: Decision
) -> Decision:
    """All answers are there."""
    judged = [check_sums.result(check, answers[check.name]) for check in rows.checks]
    failing = [
        check
        for check, result in zip(rows.checks, judged, strict=True)
        if result["state"] == "failed"
    ]
    dropped = _dropped(rows, decision, memos)
    decision = replace(decision, checks=(*judged, *dropped))
    if failing:
        return _held(rows, failing, answers, notes, decision)
    return _passed(rows, notes, memos, decision)


def _held(
    rows: _CheckedRows,
    failing: Sequence[CompiledCheck],
    answers: Answers,
    notes: Memos,
    decision: Decision,
) -> Decision:
    """A check fails: nothing is committed, and readers keep the present rows."""
    standing = rows.base
    if standing is None and isinstance(decision.step, Keep):
        standing = rows.state
    first = failing[0]
    return replace(
        decision,
        status="failed",
        error=check_sums.failure(first, answers[first.name]),
        reason=check_sums.reason(len(failing), standing.generation if standing else 0),
        step=RunChecks((), {}, notes) if notes else Keep(),
    )


def _passed(rows: _CheckedRows, notes: Memos, memos: Memos, decision: Decision) -> Decision:
    """The decision, with the memos to store: answers, and the results of this generation."""
    before = results_in(memos[rows.record]) if rows.record in memos else {}
    record = {**before, **{result["name"]: result for result in decision.checks}}
    if record != before:
        notes = {**notes, rows.record: record}
    if isinstance(decision.step, Commit):
        return replace(decision, step=replace(decision.step, notes=notes))
    if notes:
        return replace(decision, step=RunChecks((), {}, notes))
    return decision


def _dropped(rows: _CheckedRows, decision: Decision, memos: Memos) -> list[CheckResult]:
    """How many rows were left out of the partitions that come with a new generation."""
    step = decision.step
    if not isinstance(step, Commit):
        return []
    if rows.base is not None and rows.base.generation == rows.state.generation:
        return []
    # Of a root that a build trace brought, or that came about in windows, not all tasks are known.
    is_known = step.entered is not None and rows.planning.building(rows.node.dataset) is None
    keys = [dropped_key(task) for task in _entered(rows, decision)]
    counts = [dropped_in(memos[key]) if key in memos else {} for key in keys]
    drops = [check for check in rows.node.checks if check.is_drop]
    return [check_sums.dropped(check, counts if is_known else None) for check in drops]

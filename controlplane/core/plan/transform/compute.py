"""The partitions of a transform that is no fold, once the columns of its output are known.

output_error, pin_fault   rows cannot have these columns     -> failed
  |
extent_of                 which partitions to check
  |
limit                     nothing may be requested           -> stale: only counted
  |
look                      memory has all of them             -> Commit
  | some are missing
partials, keyed_parts     merging parts costs less           -> Compute or Learn: parts, and merges of parts
  |
_compute                                                     -> Compute: the missing partitions
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from controlplane.core.compile import ids
from controlplane.core.compile.sort_by import sorting
from controlplane.core.model.jobs import StoredTransformJob
from controlplane.core.model.states import Consumed
from controlplane.core.model.tasks import Task
from controlplane.core.plan import windows
from controlplane.core.plan.lookups import Deciding
from controlplane.core.plan.plan_values import Decision, Item, user_error
from controlplane.core.plan.transform import keyed_parts, merges, partials, united_slices
from controlplane.core.plan.transform.case import (
    NOT_LOOKED_UP,
    Case,
    half_built,
    item_of,
    pin_fault,
    uncertain,
)
from controlplane.core.plan.transform.commit import commit
from controlplane.core.plan.transform.extent import Extent, extent_of
from controlplane.core.plan.transform.input_states import possible
from controlplane.core.plan.transform.key_index import output_error
from controlplane.core.plan.transform.keyed_parts import KeyedParts, Plain
from controlplane.core.plan.transform.late_slices import LateRows, column_error
from controlplane.core.plan.transform.transform_tasks import job_of, tasks_of
from controlplane.core.plan.work_keys import Keys, listed, minus, union
from dataplane.contract.results import TaskError
from dataplane.contract.schemas import Schema


def decide(case: Case, schema: Schema | None, build: bytes | None) -> Deciding[Decision]:
    """`schema` of the output, where the analysis found one. `build`: the key of the whole output,
    where all of the inputs are known."""
    error = _schema_error(case, schema)
    if error is not None:
        return Decision(case.node.dataset, "failed", error=error)
    extent = yield from extent_of(case)
    limit = windows.limit(case.planning, extent.count)
    if limit == 0:
        return _only_counted(case, extent)
    # Readers of the partial root would not know its columns.
    if schema is None and not case.is_whole:
        return _only_counted(case, extent)

    job = sorted_job(case, schema)

    def tasks(keys: Sequence[str]) -> Deciding[dict[str, Task]]:
        return (yield from tasks_of(case, job, keys))

    late = yield from LateRows.of(case)
    elsewhere = united_slices.elsewhere(case) if late is None else late.elsewhere
    window = yield from windows.look(extent.keys, tasks, limit, case.node.output, elsewhere)
    is_all_known = window.is_whole and not window.missing
    if not is_all_known or not case.is_whole:
        return (yield from _missing(case, extent, window, job, schema))

    assert build is not None
    case = replace(case, parts=(yield from _parts_to_keep(case, sorted(window.hits))))
    return (yield from commit(case, extent, window, schema, build))


def _parts_to_keep(case: Case, keys: Sequence[str]) -> Deciding[Mapping[str, Consumed]]:
    """Parts that memory has are remembered with the new state, for the next change. `keys` are
    those that changed."""
    if case.parted:
        return (yield from keyed_parts.trees_to_keep(case, keys))
    parts = yield from partials.follow(case)
    return {} if parts is None else parts.trees


def sorted_job(case: Case, schema: Schema | None) -> StoredTransformJob:
    """The job of the partitions, whose rows have this schema."""
    job = job_of(case)
    order = sorting(case.node.component, schema, case_sensitive=case.node.is_case_sensitive)
    if order is not None:
        job["sort_by"] = order
    return job


def _schema_error(case: Case, schema: Schema | None) -> TaskError | None:
    if schema is not None:
        error = output_error(case.node, schema)
        if error is not None:
            return error
    if case.node.late is not None:
        error = column_error(case.node.late, case.inputs[0].schema)
        if error is not None:
            return error
    if not case.node.own:
        return None
    fault = pin_fault(case, schema)
    return user_error("pinned-schema", fault) if fault is not None else None


def _only_counted(case: Case, extent: Extent) -> Decision:
    pending = _with_pending(case, extent.keys_summary)
    item = uncertain(item_of(case, "compute", pending.count, pending), NOT_LOOKED_UP)
    return Decision(case.node.dataset, "stale", items=(item,), pending=pending)


def _with_pending(case: Case, own: Keys) -> Keys:
    """With the partitions of inputs that may still change."""
    return union([own, *(i.pending for i in case.inputs if i.pending is not None)])


# --- something is missing -------------------------------------------------------------------------


def _missing(
    case: Case,
    extent: Extent,
    window: windows.Window,
    job: StoredTransformJob,
    schema: Schema | None,
) -> Deciding[Decision]:
    """By parts where that is proven to give the same, and costs less."""
    # Requested tasks are finished in the way that they were begun. Parts that a failed one was to
    # merge may be lost, so its way is chosen anew.
    if case.node.late is not None:
        return _explained((yield from _compute(case, extent, window, job, schema)), LATE)
    requested = [task for task in window.queued.values() if task.state in windows.UNDER_WAY]
    if requested:
        plain = yield from _compute(case, extent, window, job, schema)
        is_merging = any(keyed_parts.is_merge(task) for task in requested)
        return _explained(plain, MERGED_BY_KEY if is_merging else "")
    if case.parted:
        return (yield from _missing_keys(case, extent, window, job, schema))
    parts = yield from partials.follow(case)
    if parts is None:
        return (yield from _compute(case, extent, window, job, schema))
    before = yield from _before_merging(parts, job)
    if isinstance(before, Decision):
        return before
    window = window.under(ids.job_id(before))
    return (yield from _compute(case, extent, window, before, schema))


def _missing_keys(
    case: Case,
    extent: Extent,
    window: windows.Window,
    job: StoredTransformJob,
    schema: Schema | None,
) -> Deciding[Decision]:
    """Partitions of a transform by partition: those by key from parts, where that costs less."""
    parts: KeyedParts | Plain = Plain()
    # Where there are too many to look at, nearly all are to be read.
    if window.is_whole:
        parts = yield from keyed_parts.follow(case, sorted(window.missing))
    if isinstance(parts, Plain):
        plain = yield from _compute(case, extent, window, job, schema)
        return _explained(plain, parts.reason)
    before = yield from _before_merging(parts, job)
    if isinstance(before, Decision):
        merges_of_keys = yield from _compute(case, extent, window, job, schema)
        return _with_merges(before, merges_of_keys)
    if before is job:
        return (yield from _compute(case, extent, window, job, schema))
    window = keyed_parts.as_merges(window.under(ids.job_id(before)))
    merging = yield from _compute(case, extent, window, before, schema)
    return _explained(merging, MERGED_BY_KEY)


MERGED_BY_KEY = "merged by key from parts"
LATE = "late rows of these slices are looked for"


def _explained(decision: Decision, reason: str) -> Decision:
    """With the way in which it is computed."""
    if not reason:
        return decision
    works = tuple(
        replace(work, reason=f"{work.reason or work.cause}, {reason}")
        if work.action == "compute"
        else work
        for work in decision.items
    )
    return replace(decision, items=works)


def _with_merges(before: Decision, after: Decision) -> Decision:
    """Parts, or merges of parts, to compute first; with all that is to be done for the output."""
    [parts] = before.items
    parts_count = parts.tasks - 1  # it counts the task of the whole
    works = tuple(
        replace(
            work,
            tasks=work.tasks + parts_count,
            certain=work.certain and parts.certain,
            reason=parts.reason,
        )
        if work.action == "compute"
        else work
        for work in after.items
    )
    decision = replace(before, items=works, pending=after.pending)
    return _explained(decision, MERGED_BY_KEY)


def _before_merging(
    parts: partials.Partials, job: StoredTransformJob
) -> Deciding[Decision | StoredTransformJob]:
    """The work to do before the whole can be merged; else the job that merges it, or the plain
    `job`."""
    if not parts.is_whole:
        return (yield from _missing_parts(parts, job))
    schema = yield from partials.schema_of(parts)
    merging = yield from merges.follow(parts, schema)
    if not merging.is_whole:
        return merges.compute(merging)
    merged = partials.merge_job(parts, job, merging.schema, merging.root)
    if merged is not None and isinstance(parts, KeyedParts):
        merged = parts.by_key(merged, merging)
    return merged or job


def _missing_parts(
    parts: partials.Partials, job: StoredTransformJob
) -> Deciding[Decision | StoredTransformJob]:
    if parts.is_typed:
        return partials.compute(parts)
    # Some types do not come together exactly. So they are asked for first, or parts would be
    # computed in vain.
    analysis = yield from partials.analyse(parts)
    return job if analysis is None else analysis


def _compute(
    case: Case,
    extent: Extent,
    window: windows.Window,
    job: StoredTransformJob,
    schema: Schema | None,
) -> Deciding[Decision]:
    """Ask for the tasks that the window misses."""
    # Finished partitions are kept apart from the state until all are done: for the next window, and
    # for readers `each`.
    building = None
    if extent.count > case.planning.exact or not case.is_whole:
        root = yield from windows.edited(case.planning, extent.base, window, ())
        building = half_built(case, root, schema)
    computed = listed(sorted(window.missing)) if window.is_whole else extent.keys_summary
    removed = listed(extent.removed)
    own = union([computed, removed])
    pending = _with_pending(case, own)
    later = minus(pending, own)  # what follows once the inputs have more partitions
    items: list[Item] = []
    if computed.count:
        items.append(_computed_item(case, window, computed))
    if removed.count:
        items.append(item_of(case, "remove", 0, removed))
    if later.count:
        items.append(possible(case.planning, case.node, later))
    decision = Decision(case.node.dataset, "stale", items=tuple(items), pending=pending)
    return windows.computing(decision, window, job, building)


def _computed_item(case: Case, window: windows.Window, keys: Keys) -> Item:
    if window.is_whole:
        return item_of(case, "compute", len(window.tasks), keys)
    return uncertain(item_of(case, "compute", keys.count, keys), NOT_LOOKED_UP)

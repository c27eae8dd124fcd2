"""The random runs find planted faults: each test switches one rule of the product off and expects
to be told.

The only place where the product's modules are patched: to show that the runs would notice.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeAlias

import pytest

from controlplane.core import sql
from controlplane.core.compile import ids
from controlplane.core.model import change_marks
from controlplane.core.plan import lookups, salts, sink
from controlplane.core.plan.source import source_decision
from controlplane.core.plan.transform import extent as extents
from controlplane.core.plan.transform import fold, input_states, transform_decision, transform_tasks
from controlplane.core.plan.transform.key_index import KeyIndex
from controlplane.core.sql import keyed_inputs
from controlplane.core.tree import EMPTY_ROOT
from controlplane.operations.planning.snapshot import StoreSnapshot
from controlplane.operations.work import claims, recording, rescue
from dataplane.contract.encoding import digest
from dataplane.contract.identity import EMPTY, Content, slot_id
from dataplane.contract.results import partition_result
from dataplane.contract.source_objects import source_id
from dataplane.listing import listed_partitions
from tests.property import runs
from tests.property.memory_store.queue import MemoryQueue
from tests.slices import sliced

SEEDS = 60
FOUND_BY = {  # seeds that are tried first; without them these take a minute
    "half_built_folds_keep_what_came_after_a_change": 47,
    "remembered_datasets_forget_the_schema_they_were_read_under": 36,
    "the_read_schema_is_not_part_of_a_key": 15,
}
pytestmark = pytest.mark.slow
Patch: TypeAlias = tuple[object, str, Any]
MUTATIONS: dict[str, tuple[str, Callable[[], Patch]]] = {}


def mutation(kind: str) -> Callable[[Callable[[], Patch]], Callable[[], Patch]]:
    """Register a planted fault that runs of this kind are to find."""

    def register(plant: Callable[[], Patch]) -> Callable[[], Patch]:
        MUTATIONS[plant.__name__] = (kind, plant)
        return plant

    return register


@mutation("calm")
def no_early_cutoff() -> Patch:
    numbers = itertools.count()

    def salted(result: Any) -> Any:
        schema, content, files = partition_result(result)
        return schema, Content(content.rows, next(numbers), content.sum2), files

    return recording, "partition_result", salted


@mutation("calm")
def whole_inputs_are_not_part_of_a_key() -> Patch:
    return transform_tasks, "whole_slot", lambda case, i: slot_id(EMPTY, i.schema)


@mutation("calm")
def a_changed_dimension_redoes_no_other_partition() -> Patch:
    def is_same_code(case: Any, used: Any) -> bool:
        known = [used.inputs.get(i.slot.name) for i in case.inputs]
        same = all(
            u and u.schema == i.consumed.schema for u, i in zip(known, case.inputs, strict=True)
        )
        return same and getattr(used, "logic", case.node.logic) == case.node.logic

    return extents, "is_same_code", is_same_code


def overlooking(module: Any, name: str, **values: Any) -> Patch:
    """Something is overlooked about what has to be looked at."""
    right = getattr(module, name)

    def extent(*arguments: Any) -> Any:
        found = yield from right(*arguments)
        return replace(found, **values)

    return module, name, extent


@mutation("calm")
def vanished_partitions_stay_in_transforms() -> Patch:
    return overlooking(extents, "_changed", removed=())


@mutation("calm")
def vanished_files_stay() -> Patch:
    return overlooking(source_decision, "_extent", removed=())


@mutation("busy")
def half_built_roots_keep_what_has_changed() -> Patch:
    def carried(case: Any, building: Any) -> Any:
        yield from lookups.nodes([])
        return building.root

    return source_decision, "_carried", carried


@mutation("calm")
def finished_tasks_mark_nobody() -> Patch:
    return MemoryQueue, "_mark_demanding", lambda self, tasks: None


@mutation("calm")
def remembered_datasets_forget_the_schema_they_were_read_under() -> Patch:
    right: Any = transform_decision._basis

    def basis(case: Any) -> Any:
        return {
            name: {k: v for k, v in slot.items() if k != "schema"}
            for name, slot in right(case).items()
        }

    return transform_decision, "_basis", basis


@mutation("calm")
def the_read_schema_is_not_part_of_a_key() -> Patch:
    return (
        transform_tasks,
        "slot_id",
        lambda content, schema: digest("slot/1", content=tuple(content)),
    )


@mutation("calm")
def inputs_made_by_older_code_are_read() -> Patch:
    right = input_states._offer
    return (
        input_states,
        "_offer",
        lambda planning, slot: planning.state(slot.dataset) or right(planning, slot),
    )


@mutation("busy")
def inputs_of_different_cuts_are_mixed() -> Patch:
    return input_states, "_agree", lambda planning, node, states: True


@mutation("calm")
def comments_and_spaces_count() -> Patch:
    right = sql.analyse
    return sql, "analyse", lambda text: replace(right(text), digest=digest("sql/1", text=text))


def rekeyed(also: Callable[[Any, Any], Any]) -> Patch:
    """Something more than code and data is part of a task's key."""
    right = transform_tasks.task_of

    def task(node: Any, *rest: Any) -> Any:
        found = right(node, *rest)
        return replace(found, key=digest("task/1", key=found.key, also=also(node, found)))

    return transform_tasks, "task_of", task


@mutation("calm")
def a_revision_is_part_of_a_key() -> Patch:
    return rekeyed(lambda node, task: node.revision)


@mutation("calm")
def a_partition_is_part_of_a_key() -> Patch:
    return rekeyed(lambda node, task: task.partition)


@mutation("calm")
def names_of_files_are_part_of_a_parse_key() -> Patch:
    return listed_partitions, "source_of", lambda objects, metadata: source_id(objects, named=True)


@mutation("calm")
def pinned_schemas_are_forgotten() -> Patch:
    return StoreSnapshot, "pinned", lambda self, dataset: None


@mutation("calm")
def finished_work_of_the_dead_is_thrown_away() -> Patch:
    return rescue, "read_manifest", lambda lake, attempt: None


@mutation("calm")
def indexes_keep_what_a_partition_held_before() -> Patch:
    return KeyIndex, "_before", lambda self, change, answers: ()


@mutation("calm")
def indexes_are_not_updated() -> Patch:
    right = KeyIndex.edit

    def edit(self: Any, changes: Any, results: Any) -> Any:
        before = dict(self.trees)
        yield from right(self, changes, results)
        slot = self.read.slot.name
        if before[slot].root != EMPTY_ROOT:
            self.trees = before | {slot: self.trees[slot]}

    return KeyIndex, "edit", edit


@mutation("calm")
def keys_are_read_from_their_first_partition_only() -> Patch:
    right = claims._with_pairs_of

    def first(nodes: Any, task: Any, roots: Any) -> Any:
        spec = right(nodes, task, roots).spec
        assert "slots" in spec
        firsts = {slot: spec["slots"][slot][:1] for slot in roots}
        return replace(task, spec={**spec, "slots": spec["slots"] | firsts})

    return claims, "_with_pairs_of", first


@mutation("richer")
def windows_are_read_by_any_key() -> Patch:
    return keyed_inputs._ScopeProof, "_under_windows", lambda self, key: key


@mutation("calm")
def answers_of_indexes_are_forgotten() -> Patch:
    return (
        ids,
        "index_key",
        lambda mark, content: digest("index-of/1", index=mark, content=content.rows),
    )


@mutation("calm")
def half_built_outputs_by_key_keep_what_has_changed() -> Patch:
    def carried(case: Any, used: Any) -> Any:
        yield from lookups.nodes([])
        return used.root

    return extents, "carried", carried


@mutation("folds")
def a_withdrawn_key_does_not_close_the_gap() -> Patch:
    right = fold._Place.past_removed

    def past_removed(place: Any, key: str, before: Any) -> Any:
        return replace(right(place, key, before), last=before or place.last)

    return fold._Place, "past_removed", past_removed


@mutation("folds")
def late_data_redoes_its_own_partition_of_a_fold_only() -> Patch:
    return fold._Place, "is_moved", property(lambda place: False)


@mutation("folds")
def the_partition_before_is_not_part_of_a_key() -> Patch:
    return fold, "_content", lambda entry: EMPTY


@mutation("folds")
def half_built_folds_keep_what_came_after_a_change() -> Patch:
    right = fold._first_hole

    def resume(chain: Any, building: Any) -> Any:
        yield from lookups.nodes([])
        hole = right(chain.case, building)
        return None if hole is None else (building.root, hole)

    return fold, "_resume", resume


@mutation("calm")
def copies_keep_what_vanished() -> Patch:
    right = sink._sync

    def sync(planning: Any, node: Any, state: Any, target: Any, changes: Any) -> Any:
        return right(planning, node, state, target, [change for change in changes if change.after])

    return sink, "_sync", sync


@mutation("timed")
def being_forced_is_no_part_of_a_key() -> Patch:
    right = ids.salt
    return (
        ids,
        "salt",
        lambda uid, partition, period="", force=0, **more: right(uid, partition, period, **more),
    )


@mutation("timed")
def results_are_those_of_any_day() -> Patch:
    return salts, "is_of", lambda planning, node, used: True


@mutation("timed")
def nobody_looks_at_the_day() -> Patch:
    return salts, "period_changed", lambda desired, before, now: set()


@mutation("timed")
def being_forced_marks_nobody() -> Patch:
    right = MemoryQueue._mark

    def mark(self: Any, branch: str, *names: str) -> None:
        right(self, branch, *(name for name in names if change_marks.FORCED not in names))

    return MemoryQueue, "_mark", mark


# Each shows that the sequences see one fault
@pytest.mark.parametrize("name", sliced(sorted(MUTATIONS), 3))
def test_a_planted_fault_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kind, plant = MUTATIONS[name]
    monkeypatch.setattr(*plant())
    seeds = sorted(range(SEEDS), key=lambda seed: seed != FOUND_BY.get(name))
    assert any(is_found(kind, seed) for seed in seeds), f"nobody noticed that {name}"


def is_found(kind: str, seed: int) -> bool:
    try:
        runs.KINDS[kind](seed)
    except AssertionError:
        return True
    return False

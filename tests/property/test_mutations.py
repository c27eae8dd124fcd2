"""The random runs find planted faults: each test switches one rule of the product off and expects to be told.

The only place where the product's modules are patched: to show that the runs would notice.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeAlias

import pytest

from controlplane.core import ids, sql
from controlplane.core.plan import sink, source, transform
from controlplane.operations import work
from controlplane.operations.world import Facts
from dataplane.contract import EMPTY, Content, digest, partition_result, source_id
from tests.property import runs

SEEDS = 60
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
    def salted(result: Any) -> Any:
        schema, content, files = partition_result(result)
        return schema, Content(content.rows, int(result["task"][:16], 16), content.sum2), files

    return work, "partition_result", salted


@mutation("calm")
def whole_inputs_are_not_part_of_a_key() -> Patch:
    right = transform._task_key

    def key(node: Any, inputs: Any, *rest: Any) -> bytes:
        return right(node, tuple(replace(i, content=EMPTY) for i in inputs), *rest)

    return transform, "_task_key", key


@mutation("calm")
def a_changed_dimension_redoes_no_other_partition() -> Patch:
    right = transform._is_incremental

    def is_incremental(planning: Any, node: Any, state: Any, inputs: Any) -> bool:
        used = {i.slot.name: state.inputs.get(i.slot.name) for i in inputs}
        same = all(u and u.schema == i.consumed.schema for i in inputs for u in [used[i.slot.name]])
        return right(planning, node, state, inputs) or (same and state.logic == node.logic)

    return transform, "_is_incremental", is_incremental


@mutation("calm")
def vanished_partitions_stay_in_transforms() -> Patch:
    right = transform._keys
    return transform, "_keys", lambda *args: (right(*args)[0], [])


@mutation("calm")
def vanished_files_stay() -> Patch:
    right = source._change
    return source, "_change", lambda *args: replace(right(*args), removed=())


@mutation("calm")
def remembered_datasets_forget_the_schema_they_were_read_under() -> Patch:
    right = transform._basis

    def basis(node: Any, inputs: Any) -> Any:
        return {name: {k: v for k, v in slot.items() if k != "schema"} for name, slot in right(node, inputs).items()}

    return transform, "_basis", basis


@mutation("calm")
def the_read_schema_is_not_part_of_a_key() -> Patch:
    return transform, "slot_id", lambda content, schema: digest("slot/1", content=tuple(content))


@mutation("calm")
def inputs_made_by_older_code_are_read() -> Patch:
    right = transform._not_ready

    def not_ready(planning: Any, node: Any) -> Any:
        states = [planning.state(s.dataset) for s in node.slots]
        return None if all(states) else right(planning, node)

    return transform, "_not_ready", not_ready


@mutation("busy")
def inputs_of_different_cuts_are_mixed() -> Patch:
    return transform, "_agree", lambda states: True


@mutation("calm")
def comments_and_spaces_count() -> Patch:
    right = sql.analyse
    return sql, "analyse", lambda text: replace(right(text), digest=digest("sql/1", text=text))


@mutation("calm")
def a_revision_is_part_of_a_key() -> Patch:
    right = transform._task_key

    def key(node: Any, *rest: Any) -> bytes:
        return digest("task/1", revision=node.revision, key=right(node, *rest))

    return transform, "_task_key", key


@mutation("calm")
def a_partition_is_part_of_a_key() -> Patch:
    right = transform._task_key
    return transform, "_task_key", lambda n, i, key, reads: digest("task/1", key=right(n, i, key, reads), partition=key)


@mutation("calm")
def names_of_files_are_part_of_a_parse_key() -> Patch:
    return ids, "source_of", lambda objects, metadata: source_id(objects, named=True)


@mutation("calm")
def pinned_schemas_are_forgotten() -> Patch:
    return Facts, "pinned", lambda self, dataset: None


@mutation("calm")
def finished_work_of_the_dead_is_thrown_away() -> Patch:
    return work, "read_manifest", lambda lake, attempt: None


@mutation("calm")
def copies_keep_what_vanished() -> Patch:
    right = sink._task

    def task(node: Any, job: bytes, target: Any, change: Any) -> Any:
        return right(node, job, target, change if change.after else change._replace(after=change.before))

    return sink, "_task", task


@pytest.mark.parametrize("name", sorted(MUTATIONS))
def test_a_planted_fault_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kind, plant = MUTATIONS[name]
    monkeypatch.setattr(*plant())
    assert any(is_found(kind, seed) for seed in range(SEEDS)), f"nobody noticed that {name}"


def is_found(kind: str, seed: int) -> bool:
    try:
        runs.KINDS[kind](seed)
    except AssertionError:
        return True
    return False

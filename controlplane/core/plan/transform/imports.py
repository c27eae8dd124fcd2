"""Rows that were imported: an output that this logic has not computed, taken for these inputs.

An import is remembered as a whole output is, under a key with the salt of the component. So it is
no other component's, and other inputs or other code have nothing of it.

    all partitions of the inputs are in it   -> the whole output
    some are not                             -> a partial root: its holes are computed (of a fold: refused before)
    it has partitions that no input has      -> failed
"""

from __future__ import annotations

from dataclasses import replace

from controlplane.core.compile import ids
from controlplane.core.plan import lookups, salts
from controlplane.core.plan.lookups import Deciding
from controlplane.core.plan.plan_values import Decision, user_error
from controlplane.core.plan.transform.case import Case, half_built
from controlplane.core.plan.transform.extent import is_same_code
from controlplane.core.plan.work_keys import lacking
from controlplane.core.schema.ddl_schemas import types
from dataplane.contract.schemas import Schema
from dataplane.contract.types import in_words

NAMED = 3  # of many partitions
OTHERWISE = "import another table, or compute it with `headgate refresh --force`"


def key_of(case: Case) -> bytes | None:
    """Under which rows would have been imported for these inputs. None: there was no import."""
    salt = salts.of_output(case.planning, case.node)
    if salt is None:
        return None
    slots = {i.slot.name: {"root": i.of.root, "schema": i.consumed.schema} for i in case.inputs}
    return ids.import_key(case.node.logic, slots, salt)


def with_import(
    case: Case, root: bytes, imported: Schema, schema: Schema | None
) -> Deciding[Case | Decision]:
    """The case with the imported rows as a partial root; or why they cannot be.

    `schema`: of the component's output, where Spark's analysis knows it.
    """
    fault = None if schema is None else column_fault(imported, schema)
    if fault is not None:
        return _failed(case, "import-schema", f"the imported table does not fit: {fault}")
    yield from lookups.nodes([(root, ())])
    surplus = yield from _surplus(case, root)
    if surplus:
        return _failed(case, "import-keys", surplus_fault(surplus))
    return replace(case, imported=half_built(case, root, imported))


def with_progress(case: Case) -> Deciding[Case]:
    """The case with the computed part of its holes. A partial root that lacks some of the imported
    partitions did not start from the import: it counts as none."""
    assert case.imported is not None
    progress = case.planning.building(case.node.dataset)
    if progress is None or progress.lineage != case.node.lineage:
        return case
    yield from lookups.nodes([(progress.root, ())])
    if not is_same_code(case, progress) or _lacks(case, progress.root):
        return case
    return replace(case, imported=progress)


def _lacks(case: Case, root: bytes) -> bool:
    assert case.imported is not None
    return lacking(case.nodes, case.imported.root, root).count > 0


def _failed(case: Case, code: str, fault: str) -> Decision:
    return Decision(case.node.dataset, "failed", error=user_error(code, f"{fault}; {OTHERWISE}"))


def is_whole(case: Case) -> bool:
    """No partition is left to be computed."""
    assert case.imported is not None
    root = case.imported.root
    return not any(lacking(case.nodes, i.root, root).count for i in case.leading)


def _surplus(case: Case, root: bytes) -> Deciding[list[str]]:
    """Imported partitions that no input has."""
    if not case.leading:
        return []
    missing = yield from lookups.missing_keys([(i.root, root) for i in case.leading])
    in_none = set(missing[0]).intersection(*missing)
    return sorted(in_none)


def surplus_fault(keys: list[str]) -> str:
    """That the table has partitions which no input has."""
    named = ", ".join(keys[:NAMED]) + (", ..." if len(keys) > NAMED else "")
    return f"the imported table has {len(keys)} partitions that no input has: {named}"


def column_fault(imported: Schema, declared: Schema) -> str | None:
    """The first column of a table that differs from the component's, with both types."""
    have, want = types(imported), types(declared)
    for name, kind in want.items():
        if name not in have:
            return f"it lacks the column {name} {in_words(kind)}"
        if in_words(have[name]) != in_words(kind):
            return (
                f"its column {name} is {in_words(have[name])}, the component's is {in_words(kind)}"
            )
    for name, kind in have.items():
        if name not in want:
            return f"the component has no column {name} {in_words(kind)}"
    return None

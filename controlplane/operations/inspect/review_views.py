"""What an edit changes, as the JSON that the API and the command line show.

Does not belong here: what is compared (core.review).
"""

from __future__ import annotations

from controlplane.core.model.answers import ColumnsChange, ComponentChange, PlanBreak, RetypedColumn
from controlplane.core.review import Break, Change, ColumnChanges, Retyped


def change(found: Change) -> ComponentChange:
    return {
        "component": found.dataset,
        "kind": found.kind,
        "impact": found.impact,
        "text_diff": found.text_diff,
        "logic_changed": bool(found.logic),
        "logic": list(found.logic),
        "columns": _columns(found.columns),
        "schema_from": found.origin,
        "schema_unknown": found.why_unknown or None,
        "breaks": [_broken(one) for one in found.breaks],
    }


def _columns(found: ColumnChanges) -> ColumnsChange:
    return {
        "added": list(found.added),
        "removed": list(found.removed),
        "retyped": [_retyped(one) for one in found.retyped],
    }


def _retyped(one: Retyped) -> RetypedColumn:
    return {"name": one.name, "before": one.before, "after": one.after, "wider": one.is_wider}


def _broken(found: Break) -> PlanBreak:
    problem = found.problem
    return {
        "file": problem.file,
        "line": problem.line,
        "column": problem.column,
        "code": problem.code,
        "message": problem.message,
        "hint": problem.hint,
        "component": found.component,
        "what": found.what,
        "by": found.by,
    }

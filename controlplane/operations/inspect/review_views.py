"""What an edit changes, as the JSON that the API and the command line show."""

from __future__ import annotations

from controlplane.core.model.answers import ColumnsChange, ComponentChange, PlanBreak, RetypedColumn
from controlplane.core.review import Break, ColumnChanges, ComponentReview, Retyped
from controlplane.operations.context import Context


def change(ctx: Context, reviewed: ComponentReview) -> ComponentChange:
    return {
        "component": reviewed.dataset,
        "kind": reviewed.kind,
        "impact": reviewed.impact,
        "text_diff": reviewed.text_diff,
        "logic_changed": bool(reviewed.logic),
        "logic": list(reviewed.logic),
        "columns": _columns(reviewed.columns),
        "schema_from": reviewed.origin,
        "schema_unknown": reviewed.why_unknown or None,
        "breaks": [
            _broken(broken)
            for broken in reviewed.breaks
            if ctx.sees(broken.by) and ctx.sees(broken.component)
        ],
    }


def _columns(changes: ColumnChanges) -> ColumnsChange:
    return {
        "added": list(changes.added),
        "removed": list(changes.removed),
        "retyped": [_retyped(column) for column in changes.retyped],
    }


def _retyped(column: Retyped) -> RetypedColumn:
    return {
        "name": column.name,
        "before": column.before,
        "after": column.after,
        "wider": column.is_wider,
    }


def _broken(broken: Break) -> PlanBreak:
    problem = broken.problem
    return {
        "file": problem.file,
        "line": problem.line,
        "column": problem.column,
        "code": problem.code,
        "message": problem.message,
        "hint": problem.hint,
        "component": broken.component,
        "what": broken.what,
        "by": broken.by,
    }

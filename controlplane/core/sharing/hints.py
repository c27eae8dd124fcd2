"""Hints of clients about the rows that they will keep, as a condition by which files are left out.
Pure.

Hints are SQL texts (`predicateHints`), all of which hold, and a tree in JSON
(`jsonPredicateHints`). Both are read by the conditions that records have. What these do not know is
no hint: leaving out too little is right, and too much never is.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Final

from controlplane.core.errors import BadCondition
from controlplane.core.records import pruning, where
from dataplane.contract.predicates import Condition, PredicateCall
from dataplane.contract.schemas import Schema

DEEPEST: Final = 20  # nodes within each other
LONGEST: Final = 8_000  # characters of all hints
MOST_COMPARISONS: Final = 100  # of all hints, with each file
_COMPARISONS: Final = {
    "equal": "=",
    "lessThan": "<",
    "lessThanOrEqual": "<=",
    "greaterThan": ">",
    "greaterThanOrEqual": ">=",
}
_NUMBER: Final = re.compile(r"-?[0-9]{1,38}(\.[0-9]{1,38})?", re.ASCII)
_NUMBERS: Final = ("int", "long", "float", "double")


def condition_of(texts: Sequence[str], tree: str, schema: Schema) -> Condition | None:
    """The condition that certainly holds for all rows that the client keeps; None if none is
    certain. Hints behind those that reach LONGEST or MOST_COMPARISONS are ignored. `tree`: JSON, or
    empty."""
    certain: list[Condition] = []
    characters = comparisons = 0
    for text in (*texts, _of_tree(tree)):
        characters += len(text or "")
        condition = _parsed(text, schema) if characters <= LONGEST else None
        comparisons += pruning.comparisons(condition) if condition is not None else 0
        if condition is not None and comparisons <= MOST_COMPARISONS:
            certain.append(condition)
    if len(certain) > 1:
        return PredicateCall("and", tuple(certain))
    return certain[0] if certain else None


def _parsed(text: str | None, schema: Schema) -> Condition | None:
    try:
        return None if text is None else where.parse(text, schema)
    except BadCondition:
        return None


def _of_tree(tree: str) -> str | None:
    try:
        return _condition(json.loads(tree), 0)
    except (ValueError, RecursionError):
        return None


def _condition(node: object, depth: int) -> str | None:
    """As SQL. Unknown parts of a conjunction are left out."""
    if not isinstance(node, dict) or depth > DEEPEST:
        return None
    operator, children = node.get("op"), node.get("children", [])
    if not isinstance(operator, str) or not isinstance(children, list):
        return None
    if operator in _COMPARISONS:
        return _joined(
            f" {_COMPARISONS[operator]} ", [_operand(child) for child in children], least=2, most=2
        )
    if operator == "isNull":
        return _wrapped("{} IS NULL", [_operand(child) for child in children])
    parts = [_condition(child, depth + 1) for child in children]
    if operator == "and" and depth == 0:
        return _joined(" AND ", [part for part in parts if part is not None])
    if operator in ("and", "or"):
        return _joined(f" {operator.upper()} ", parts)
    return _wrapped("NOT {}", parts) if operator == "not" else None


def _joined(
    word: str, parts: Sequence[str | None], *, least: int = 1, most: int | None = None
) -> str | None:
    certain = [part for part in parts if part is not None]
    is_whole = len(certain) == len(parts) >= least and (most is None or len(parts) <= most)
    return f"({word.join(certain)})" if is_whole else None


def _wrapped(form: str, parts: Sequence[str | None]) -> str | None:
    part = parts[0] if len(parts) == 1 else None
    return None if part is None else f"({form.format(part)})"


def _operand(node: object) -> str | None:
    if not isinstance(node, dict):
        return None
    match node:
        case {"op": "column", "name": str(name)}:
            return "`" + name.replace("`", "``") + "`"
        case {"op": "literal", "value": str(value), "valueType": str(kind)}:
            return _literal(value, kind)
    return None


def _literal(value: str, kind: str) -> str | None:
    if kind in _NUMBERS:
        return value if _NUMBER.fullmatch(value) else None
    if kind == "bool":
        return value.upper() if value in ("true", "false") else None
    if "'" in value or "\\" in value:  # which literals of SQL write in another way
        return None
    return {
        "string": f"'{value}'",
        "date": f"DATE '{value}'",
        "timestamp": f"TIMESTAMP '{value}'",
    }.get(kind)

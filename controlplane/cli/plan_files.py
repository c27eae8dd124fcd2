"""Plans in files: what `plan --out` writes, and what `apply` carries out, or refuses if something
moved."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict, cast

from controlplane.core.errors import HeadgateError

if TYPE_CHECKING:
    from controlplane.client import Document
    from controlplane.core.model.answers import PlanAnswer, PlanBasis


class BadPlanFile(HeadgateError):
    """A plan cannot be written, or a file with a plan holds none that can be carried out."""

    code = "unreadable-file"


class PlanFile(TypedDict):
    """The part of a plan that is carried out."""

    branch: str
    blueprints: list[Document]
    basis: PlanBasis


def with_blueprints(plan: PlanAnswer, documents: Sequence[Document]) -> dict[str, object]:
    """A plan that can be applied."""
    return {**plan, "blueprints": list(documents)}


def write(path: Path, value: dict[str, object]) -> None:
    try:
        path.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")
    except OSError as error:
        raise BadPlanFile(f"{path}: {error.strerror or error}") from error


def read(path: Path) -> PlanFile | None:
    """The plan in a file; None where it holds something else, such as a blueprint."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    if not isinstance(value, dict) or "basis" not in value:
        return None
    if not isinstance(value.get("blueprints"), list) or not isinstance(value.get("branch"), str):
        raise BadPlanFile(f"{path}: it is no whole plan: write it by `headgate plan --out {path}`")
    return cast("PlanFile", value)

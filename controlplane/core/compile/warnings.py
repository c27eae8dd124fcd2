"""Notices: not errors in a blueprint, yet worth knowing before it runs. Now: code whose results may
change by themselves."""

from __future__ import annotations

from collections.abc import Container, Iterator

from controlplane.core.blueprint.model import PythonTransform
from controlplane.core.compile.nodes import Desired, Transform
from controlplane.core.errors import Problem
from controlplane.core.python.volatility import VolatileCode
from controlplane.core.python.volatility_advice import cure

CODE = "undeclared-volatile"
_FOLLOWS = "results are frozen as they first come out and shared with nobody"
_CLOCK = f"the clock of Python code is the machine's, not the plan's `as_of`; {_FOLLOWS}"
_DECLARE = "declare `volatile: true | daily | hourly`"


def notices(desired: Desired, datasets: Container[str] | None = None) -> tuple[Problem, ...]:
    """Notices about Python transforms (all, or those named) that are not declared volatile, in
    order of place."""
    chosen = (node for name, node in desired.nodes.items() if datasets is None or name in datasets)
    nodes = (node for node in chosen if node.is_transform and not node.component.volatile)
    return tuple(sorted({notice for node in nodes for notice in _of(node)}))


def _of(node: Transform) -> Iterator[Problem]:
    if isinstance(node.body, PythonTransform) and node.bundle is not None:
        yield from (_notice(node.body, construct) for construct in node.bundle.volatile)


def _notice(body: PythonTransform, code: VolatileCode) -> Problem:
    file, line, column = code.file, code.line, 1
    if code.file == body.main:
        place = body.text.at(code.line, 1)
        file, line, column = place.file, place.line, place.column
    message = f"{code.construct}: {_CLOCK if code.is_clock else _FOLLOWS}"
    return Problem(file, line, column, CODE, message, _hint(code.construct))


def _hint(construct: str) -> str:
    remedy = cure(construct)
    return (
        f"{remedy}; or {_DECLARE}" if remedy else f"hand the value in by `params:`, or {_DECLARE}"
    )

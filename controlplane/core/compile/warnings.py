"""Notices: not errors in a blueprint, yet worth knowing before it runs: code whose results may
change by themselves, and sources on demand without a demand."""

from __future__ import annotations

from collections.abc import Container, Iterator

from controlplane.core.blueprint.model import PythonTransform
from controlplane.core.compile.nodes import Desired, Node, Source, Transform
from controlplane.core.errors import Problem
from controlplane.core.python.volatility import VolatileCode
from controlplane.core.python.volatility_advice import cure

CODE = "undeclared-volatile"
_FOLLOWS = "results are frozen as they first come out, and never shared"
_CLOCK = f"the clock of Python code is the machine's, not the plan's `as_of`; {_FOLLOWS}"
_DECLARE = "declare `volatile: true | daily | hourly`"


def notices(desired: Desired, datasets: Container[str] | None = None) -> tuple[Problem, ...]:
    """Notices about components (all, or those named), in order of place."""
    chosen = (node for name, node in desired.nodes.items() if datasets is None or name in datasets)
    return tuple(sorted({notice for node in chosen for notice in _of(node)}))


def _of(node: Node) -> Iterator[Problem]:
    if node.is_source and not node.output:
        yield from _undemanded(node)
    if node.is_transform and not node.component.volatile:
        yield from _volatile(node)


def _undemanded(node: Source) -> Iterator[Problem]:
    is_on_demand = node.read.on_demand_s is not None and not node.component.paused
    if is_on_demand and not node.pulled_by:
        message = f"no dataset downstream of {node.component.name} has a freshness goal"
        hint = "it is listed on request only: give a reader `freshness`, or the source an interval"
        yield node.component.place.problem("undemanded-source", message, hint)


def _volatile(node: Transform) -> Iterator[Problem]:
    """Notices about a transform that is not declared volatile."""
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

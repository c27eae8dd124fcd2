"""What is no error in a blueprint and yet worth knowing before it runs: code whose results may change by themselves.

Does not belong here: what makes code volatile (volatility), what follows from it (plan.salts), problems.
"""

from __future__ import annotations

from collections.abc import Container, Iterator

from controlplane.core.blueprint.model import PythonTransform
from controlplane.core.compile.nodes import Desired, Transform
from controlplane.core.errors import Problem
from controlplane.core.python.cures import cure
from controlplane.core.python.volatility import VolatileCode

CODE = "undeclared-volatile"
_FOLLOWS = "results are frozen as they first come out and shared with nobody"
_CLOCK = f"the clock of Python code is the machine's, not the plan's `as_of`; {_FOLLOWS}"
_DECLARE = "declare `volatile: true | daily | hourly`"


def notices(desired: Desired, datasets: Container[str] | None = None) -> tuple[Problem, ...]:
    """Of Python transforms (all, or those named) that do not say that they are volatile, in order of place."""
    wanted = (node for name, node in desired.nodes.items() if datasets is None or name in datasets)
    nodes = (node for node in wanted if isinstance(node, Transform) and not node.component.volatile)
    return tuple(sorted({notice for node in nodes for notice in _of(node)}))


def _of(node: Transform) -> Iterator[Problem]:
    if isinstance(node.body, PythonTransform) and node.bundle is not None:
        yield from (_notice(node.body, found) for found in node.bundle.volatile)


def _notice(body: PythonTransform, found: VolatileCode) -> Problem:
    file, line, column = found.file, found.line, 1
    if found.file == body.main:
        place = body.text.at(found.line, 1)
        file, line, column = place.file, place.line, place.column
    message = f"{found.construct}: {_CLOCK if found.is_clock else _FOLLOWS}"
    return Problem(file, line, column, CODE, message, _hint(found.construct))


def _hint(construct: str) -> str:
    known = cure(construct)
    return f"{known}; or {_DECLARE}" if known else f"hand the value in by `params:`, or {_DECLARE}"

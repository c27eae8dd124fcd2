"""Where in a blueprint, or in a file beside it, an error of a component is."""

from __future__ import annotations

from controlplane.core.blueprint import PythonTransform, SqlTransform
from controlplane.core.compile import compiled_checks
from controlplane.core.compile.nodes import Node
from dataplane.contract.results import TaskError


def place_of_error(node: Node, error: TaskError) -> tuple[str | None, int | None, int | None]:
    """(file, line, column), each None where neither the error nor the blueprint has it."""
    line, column, body = error["line"], error["column"], node.component.body
    at = compiled_checks.place_of(node.component, error["file"], line, column)
    if at is not None:
        return at
    if line is None:
        if node.is_transform:
            place = node.component.place
            return place.file, place.line, place.column
        return error["file"], None, None
    if isinstance(body, SqlTransform) or (
        isinstance(body, PythonTransform) and error["file"] in (None, body.main)
    ):
        place = body.text.at(line, column or 1)
        return place.file, place.line, place.column
    return error["file"], line, column

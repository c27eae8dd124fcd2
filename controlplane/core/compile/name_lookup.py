"""First step of compiling: texts are read, and the names in them are looked up."""

from __future__ import annotations

import posixpath
from dataclasses import replace

from controlplane.core import sql
from controlplane.core.blueprint import (
    Component,
    Draft,
    Position,
    PythonTransform,
    SqlTransform,
    Write,
    draft,
)
from controlplane.core.compile import ordered_fold
from controlplane.core.compile.dependency_graph import Reference
from controlplane.core.compile.nodes import NodeText
from controlplane.core.errors import Problem
from controlplane.core.model.revisions import Revision
from controlplane.core.python import code


def read(revision: Revision, parsed: Draft | None, problems: list[Problem]) -> NodeText | None:
    """A revision with its queries and bundles analysed; None where it is no blueprint. Problems are
    added.

    Code that is refused has no query or bundle.
    """
    parsed_draft = parsed or draft(revision.text, file=revision.file, files=revision.files)
    problems.extend(parsed_draft.problems)
    blueprint = parsed_draft.blueprint
    if blueprint is None:
        return None
    queries: dict[str, sql.AnalysedQuery] = {}
    bundles: dict[str, code.CodeBundle] = {}
    for component in blueprint.components:
        body = component.body
        try:
            if isinstance(body, SqlTransform):
                queries[component.name] = sql.analyse(body.sql)
            elif isinstance(body, PythonTransform):
                bundles[component.name] = code.analyse(
                    dict(body.modules),
                    body.main,
                    body.entrypoint,
                    body.requirements,
                    is_inline=body.is_inline,
                )
        except sql.SqlProblem as e:
            problems.append(
                _located(component, Problem("", e.line, e.column, e.code, e.message, e.hint))
            )
        except code.CodeProblem as e:
            problems.append(
                _located(component, Problem(e.file, e.line, e.column, e.code, e.message, e.hint))
            )
    return NodeText(blueprint, revision, queries, bundles, parsed_draft.unsound)


def _located(component: Component, problem: Problem) -> Problem:
    """With its place in the file, for one whose place is in the text of the component."""
    body = component.body
    # A module that lies in a file of its own
    if isinstance(body, PythonTransform) and problem.file != body.main:
        return problem
    place = component.place
    if (
        problem.code == "missing-entrypoint"
        and isinstance(body, PythonTransform)
        and body.entrypoint_place
    ):
        return replace(
            problem,
            file=body.entrypoint_place.file,
            line=body.entrypoint_place.line,
            column=body.entrypoint_place.column,
        )
    if isinstance(body, SqlTransform | PythonTransform):
        place = body.text.at(problem.line, problem.column)
    placed = place.problem(problem.code, problem.message, problem.hint)
    return of_use(component, placed)


def of_use(component: Component, problem: Problem) -> Problem:
    """Where a component takes parts from elsewhere, such as a template, a problem there names the
    component."""
    if component.use is None:
        return problem
    place = Position(problem.file, problem.line, problem.column)
    return replace(problem, message=component.use.message_at(place, problem.message))


def renamed(component: Component) -> dict[str, str]:
    """Slot name -> dataset, where a hint names another one."""
    body = component.body
    if not isinstance(body, SqlTransform | PythonTransform):
        return {}
    return {hint.name: hint.dataset for hint in body.inputs if hint.dataset}


def references(text: NodeText, component: Component) -> tuple[Reference, ...]:
    """What a component reads, as it is written, with its place."""
    datasets = renamed(component)
    match component.body:
        case SqlTransform() as body:
            query = text.queries.get(component.name)
            if query is None:
                return ()
            names = {".".join(r.parts): (r.line, r.column) for r in reversed(query.references)}
            names.pop(ordered_fold.name_of(component), None)
            return tuple(
                Reference(datasets.get(n, n), body.text.at(*at)) for n, at in names.items()
            )
        case PythonTransform() as body:
            return tuple(
                Reference(datasets.get(hint.name, hint.name), hint.place) for hint in body.inputs
            )
        case Write(source=source, source_place=place):
            return (Reference(source, place or component.place),) if source else ()
        case _:
            return ()


def absolute(path: str, file: str) -> str | None:
    """A path of a blueprint in this file; None where it is relative to nothing that the server
    knows."""
    if "://" in path or path.startswith("/"):
        return path
    folder = posixpath.dirname(file)
    if not folder.startswith("/"):
        return None
    return posixpath.normpath(posixpath.join(folder, path))

"""The values of `core.rest` are the routes that the API serves, with the names of their queries."""

from __future__ import annotations

import ast
import inspect
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from controlplane import client
from controlplane.core import rest
from tests.unit.api.world import World

ROUTES = [value for value in vars(rest).values() if isinstance(value, rest.Route)]
METHODS = {"get", "post", "put", "delete"}
CLIENT = Path(inspect.getfile(client)).parent


def test_each_route_has_a_value_with_the_names_of_its_query(world: World) -> None:
    with world.http() as http:
        paths = http.get("/openapi.json").json()["paths"]
    served = {
        (method.upper(), path): [
            p["name"] for p in operation.get("parameters", ()) if p["in"] == "query"
        ]
        for path, operations in paths.items()
        for method, operation in operations.items()
        if method in METHODS
    }
    assert {(route.method, route.path): list(route.query) for route in ROUTES} == served


def _answers_of(name: str) -> set[str]:
    """The names of the types between the brackets of `Route[DatasetAnswer | TargetStatus]`."""
    return set(re.findall(r"\w+", rest.__annotations__[name])) - {"Route"}


def _answer_of(responses: dict[str, Any]) -> str:
    """The type of an answer by its media types. JSON stands for all types of JSON."""
    content = next(
        response.get("content", {}) for status, response in responses.items() if status < "300"
    )
    match list(content):
        case []:
            return "None"
        case ["application/json"]:
            return "JSON"
        case ["text/plain"]:
            return "str"
        case _:
            return "bytes"


def test_a_route_without_json_has_the_type_of_its_media(world: World) -> None:
    """Types of JSON are compared by mypy, in the API and in the client."""
    with world.http() as http:
        paths = http.get("/openapi.json").json()["paths"]
    served, declared = {}, {}
    for name, route in vars(rest).items():
        if isinstance(route, rest.Route):
            served[name] = _answer_of(paths[route.path][route.method.lower()]["responses"])
            (answer, *_) = sorted(_answers_of(name))
            declared[name] = answer if answer in ("None", "str", "bytes") else "JSON"
    assert declared == served


def test_a_cast_of_the_client_names_an_answer_of_its_route() -> None:
    """mypy checks no cast. One is needed where a route has several answers."""
    casts = 0
    for path in CLIENT.glob("*.py"):
        for function in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(function, ast.FunctionDef):
                answers = set[str]().union(*map(_answers_of, _routes_in(function)))
                for kind in _casts_in(function) if answers else ():
                    assert kind in answers, f"{path.name}: {function.name}"
                    casts += 1
    assert casts > 0


def _routes_in(function: ast.FunctionDef) -> list[str]:
    """The names of routes that a function calls, as in `rest.DATASET`."""
    return [
        node.attr
        for node in ast.walk(function)
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == "rest"
    ]


def _casts_in(function: ast.FunctionDef) -> list[str]:
    """The names of types that a function casts to."""
    return [
        ast.literal_eval(node.args[0])
        for node in ast.walk(function)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "cast"
    ]


def test_the_client_imports_no_server() -> None:
    code = "import sys, controlplane.client; print(*sys.modules)"
    modules = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True
    ).stdout.split()
    assert "controlplane.core.rest" in modules
    assert not {"fastapi", "starlette", "pydantic"} & set(modules)

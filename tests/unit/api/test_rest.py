"""The values of `core.rest` are the routes that the API serves, with the names of their queries."""

from __future__ import annotations

import subprocess
import sys

from controlplane.core import rest
from tests.unit.api.world import World

ROUTES = [value for value in vars(rest).values() if isinstance(value, rest.Route)]
METHODS = {"get", "post", "put", "delete"}


def test_each_route_has_a_value_with_the_names_of_its_query(world: World) -> None:
    with world.http() as http:
        paths = http.get("/openapi.json").json()["paths"]
    served = {
        (method.upper(), path): [p["name"] for p in operation.get("parameters", ()) if p["in"] == "query"]
        for path, operations in paths.items()
        for method, operation in operations.items()
        if method in METHODS
    }
    assert {(route.method, route.path): list(route.query) for route in ROUTES} == served


def test_the_client_imports_no_server() -> None:
    code = "import sys, controlplane.client; print(*sys.modules)"
    modules = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split()
    assert "controlplane.core.rest" in modules
    assert not {"fastapi", "starlette", "pydantic"} & set(modules)

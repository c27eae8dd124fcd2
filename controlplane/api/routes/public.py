"""The routes that need no token: is the process alive, is it ready, and the schema of blueprints for editors."""

from __future__ import annotations

from anyio import to_thread
from fastapi import APIRouter, Request, Response

from controlplane.api.auth import services
from controlplane.api.calls import answer
from controlplane.api.problems import Refused
from controlplane.api.services import Services

router = APIRouter()


@router.get("/livez")
async def livez() -> Response:
    """The process answers."""
    return answer({"status": "ok"})


@router.get("/readyz")
async def readyz(request: Request) -> Response:
    """The database answers and the loop runs; 503 otherwise."""
    found = services(request)
    await to_thread.run_sync(_check, found, limiter=found.threads.probes)
    return answer({"status": "ok"})


def _check(found: Services) -> None:
    if found.stopping.is_set() or not found.is_ready():
        raise Refused("unavailable", "not ready")
    with found.store.read() as tx:
        tx.now()


@router.get("/schema/blueprint-v1.json")
def schema() -> Response:
    """JSON Schema of a blueprint."""
    from controlplane.core.blueprint import json_schema

    return answer(json_schema())

"""The routes that need no token: is the process alive, is it ready, and the schema of blueprints
for editors."""

from __future__ import annotations

from anyio import to_thread
from fastapi import Request

from controlplane.api.auth import EncodedRoute, Routes
from controlplane.api.authentication import services
from controlplane.api.calls import JsonAnswer, answer
from controlplane.api.problem_json import RequestRefused
from controlplane.api.services import Services
from controlplane.core import rest
from controlplane.core.model.answers import HealthAnswer
from controlplane.core.model.json_values import JsonObject

router = Routes(route_class=EncodedRoute)


@router.answers(rest.LIVEZ)
async def livez(request: Request) -> JsonAnswer[HealthAnswer]:
    """The process answers, and nothing in it has ended that must not; 503 otherwise: start another
    one."""
    if not services(request).is_alive():
        raise RequestRefused(
            "unavailable", "a part of this process has ended; it is to be started again"
        )
    return answer({"status": "ok"})


@router.answers(rest.READYZ)
async def readyz(request: Request) -> JsonAnswer[HealthAnswer]:
    """The database answers, and the loop runs and gets on; 503 with the reason otherwise."""
    app_services = services(request)
    await to_thread.run_sync(_check, app_services, limiter=app_services.threads.probes)
    return answer({"status": "ok"})


def _check(app_services: Services) -> None:
    reason = (
        "the control plane is ending" if app_services.stopping.is_set() else app_services.unready()
    )
    if reason:
        raise RequestRefused("unavailable", f"not ready: {reason}")
    with app_services.store.read() as tx:
        tx.now()


@router.answers(rest.BLUEPRINT_SCHEMA)
def schema() -> JsonAnswer[JsonObject]:
    """JSON Schema of a blueprint."""
    from controlplane.core.blueprint import json_schema

    return answer(json_schema())

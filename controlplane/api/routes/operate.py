"""Wishes of an operator: refresh, retry, pause, resume; and what there is to look into."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

from fastapi import Query, Response
from fastapi.responses import PlainTextResponse
from pydantic import BaseModel, ConfigDict, Field

from controlplane.api import auth
from controlplane.api.calls import Attempt, Branch, Call, Called, answer, branch_of, target_of
from controlplane.operations.context import Context
from controlplane.operations.desired import blueprints, controls
from controlplane.operations.inspect import tasks

router = auth.router()


class Wish(BaseModel):
    """What to do it to: a dataflow, a dataset, or everything."""

    model_config = ConfigDict(extra="forbid", strict=True)
    target: str | None = Field(default=None, max_length=1000)


class Refresh(Wish):
    """`accept_deletes` confirms a loss of source objects that waits for confirmation; `force` makes the target anew."""

    accept_deletes: bool = False
    force: bool = False


@router.post("/v1/branches/{branch}/refresh")
def refresh(call: Called, branch: Branch, wish: Refresh | None = None) -> Response:
    """List sources now; with `force`, compute the target again."""
    wish = wish or Refresh()
    target, how = target_of(wish.target), {"accept_deletes": wish.accept_deletes, "force": wish.force}
    return call.once(lambda: answer(controls.refresh(call.context, branch, target, **how)))


@router.post("/v1/branches/{branch}/retry")
def retry(call: Called, branch: Branch, wish: Wish | None = None) -> Response:
    """Try failed tasks again."""
    target = _target(wish)
    return call.once(lambda: answer(controls.retry(call.context, branch, target)))


@router.post("/v1/branches/{branch}/pause")
def pause(call: Called, branch: Branch, wish: Wish | None = None) -> Response:
    """Start nothing more; what is committed stays readable."""
    return call.once(lambda: _each(call, branch, wish, controls.pause))


@router.post("/v1/branches/{branch}/resume")
def resume(call: Called, branch: Branch, wish: Wish | None = None) -> Response:
    """Take back a pause."""
    return call.once(lambda: _each(call, branch, wish, controls.resume))


@router.get("/v1/attempts/{attempt}/log", response_class=PlainTextResponse)
def log(call: Called, attempt: Attempt, tail: Annotated[int, Query(ge=1, le=10_000)] = 200) -> Response:
    """The last lines that the driver of an attempt said."""
    said = tasks.log(call.context, attempt, tail, call.services.log)
    return PlainTextResponse(said, headers={"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"})


@router.get("/v1/audit")
def audit(
    call: Called,
    limit: Annotated[int, Query(ge=1, le=10_000)] = 100,
    branch: Annotated[str, Query()] = blueprints.MAIN,
) -> Response:
    """Who changed what is wanted in a branch, or installation-wide; the last changes first."""
    return answer(tasks.audit(call.context, branch_of(branch), limit))


def _each(call: Call, branch: str, wish: Wish | None, work: Callable[[Context, str, str], dict[str, Any]]) -> Response:
    """Pauses belong to names: without a target, every dataflow that there is now."""
    target = _target(wish)
    names = [target] if target else [f["name"] for f in blueprints.dataflows(call.context, branch)]
    done = [work(call.context, branch, name) for name in names]
    still = {key: [x for one in done for x in one.get(key, ())] for key in ("still_paused", "by")}
    told = {key: list(dict.fromkeys(found)) for key, found in still.items() if found}
    return answer(done[0] if target else {"target": None, "targets": names, **told})


def _target(wish: Wish | None) -> str | None:
    return target_of(wish.target if wish else None)

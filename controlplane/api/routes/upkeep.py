"""Looking after the database: collecting what nothing refers to, and checking what is there."""

from __future__ import annotations

from dataclasses import asdict

from fastapi import Response
from pydantic import BaseModel, ConfigDict

from controlplane.api import auth
from controlplane.api.calls import Called, answer
from controlplane.api.services import Services
from controlplane.operations.collect import collect
from controlplane.operations.context import Context
from controlplane.operations.fsck import LIMIT, fsck
from controlplane.operations.packing import give_up
from dataplane.contract import Json

router = auth.router()


class Check(BaseModel):
    """`files` also looks for every file in the lake, which takes a listing for each attempt that ever wrote one."""

    model_config = ConfigDict(extra="forbid", strict=True)
    files: bool = False


class Collection(BaseModel):
    """`packs` also gives up all packs, which are made again in time: after files of some were lost."""

    model_config = ConfigDict(extra="forbid", strict=True)
    packs: bool = False


@router.post("/v1/gc")
def gc(call: Called, wish: Collection | None = None) -> Response:
    """Collect now; a running service does it by itself now and then. Answers how many rows of each kind went."""
    return call.once(lambda: answer(_collect(call.context, call.services, packs=bool(wish and wish.packs))))


def _collect(context: Context, services: Services, *, packs: bool) -> Json:
    given_up = {"packs": give_up(context.store, context.namespace)} if packs else {}
    found = collect(context.store, context.namespace, lake=services.lake, packages=services.packages)
    return given_up | asdict(found)


@router.post("/v1/fsck")
def check(call: Called, wish: Check | None = None) -> Response:
    """Check that what the database says is so. Changes nothing. `complete` is false where more may be wrong."""
    lake = call.services.lake if wish and wish.files else None
    found = fsck(call.context.store, call.context.namespace, lake)
    return answer({"findings": [asdict(f) for f in found], "complete": len(found) < LIMIT})

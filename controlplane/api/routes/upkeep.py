"""Looking after the database: collecting what nothing refers to, and checking what is there."""

from __future__ import annotations

from dataclasses import asdict

from fastapi import Response
from pydantic import BaseModel, ConfigDict

from controlplane.api import auth
from controlplane.api.calls import Called, answer
from controlplane.operations.collect import collect
from controlplane.operations.fsck import LIMIT, fsck

router = auth.router()


class Check(BaseModel):
    """`files` also looks for every file in the lake, which takes a listing for each attempt that ever wrote one."""

    model_config = ConfigDict(extra="forbid", strict=True)
    files: bool = False


@router.post("/v1/gc")
def gc(call: Called) -> Response:
    """Collect now; a running service does it by itself now and then. Answers how many rows of each kind went."""
    return call.once(lambda: answer(asdict(collect(call.context.store, call.context.namespace))))


@router.post("/v1/fsck")
def check(call: Called, wish: Check | None = None) -> Response:
    """Check that what the database says is so. Changes nothing. `complete` is false where more may be wrong."""
    lake = call.services.lake if wish and wish.files else None
    found = fsck(call.context.store, call.context.namespace, lake)
    return answer({"findings": [asdict(f) for f in found], "complete": len(found) < LIMIT})

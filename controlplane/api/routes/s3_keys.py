"""Making, listing and revoking S3 keys. A secret key is in one answer, and never again."""

from __future__ import annotations

from typing import Annotated

from fastapi import Path, Response
from pydantic import Field

from controlplane.api import auth
from controlplane.api.authentication import caller
from controlplane.api.calls import Call, Called, ClosedBody, JsonAnswer, answer
from controlplane.api.problem_json import RequestRefused
from controlplane.core import rest
from controlplane.core.model.access import Token
from controlplane.core.model.answers import NewS3KeyAnswer, S3KeysAnswer
from controlplane.core.rights import may
from controlplane.operations.desired import s3_keys
from controlplane.operations.request_body import Label
from controlplane.services.s3.register import REGION

router = auth.router("data", "all")


class NewS3Key(ClosedBody):
    """What a key may read, and for how long."""

    name: Label
    read: list[str] = Field(["main"], min_length=1, max_length=100)
    ttl_s: float | None = Field(None, gt=0, le=10 * 366 * 86400)


@router.answers(rest.CREATE_S3_KEY)
def create(call: Called, new: NewS3Key) -> JsonAnswer[NewS3KeyAnswer]:
    """Make a key; keep its secret, which is not stored. One of who is no administrator reads no
    more than the token that makes it, and ends with it. So a repeat with an Idempotency-Key cannot
    be answered."""
    if call.repeat is not None:
        raise RequestRefused(
            "not-supported", "an Idempotency-Key cannot go with a key: its secret is shown once"
        )
    key = s3_keys.create(
        call.context, new.name, new.read, ttl_s=new.ttl_s, parent=_owner(call) or ""
    )
    secret = s3_keys.secret_key(call.services.s3_secret, call.context.namespace, key.id)
    return answer(_shown(key, secret, str(call.request.base_url).rstrip("/")), 201)


def _owner(call: Call) -> str | None:
    """The token that keys are of. Keys of administrators stand alone, and administrators see to
    all."""
    return None if may(call.context.principal, "admin") else caller(call.request).id


def _shown(key: Token, secret: str, endpoint: str) -> NewS3KeyAnswer:
    return {
        "access_key": key.id,
        "secret_key": secret,
        "endpoint": endpoint,
        "region": REGION,
        "name": key.name,
        "read": s3_keys.read_scopes(key),
        "at": key.at,
        "expires": key.expires,
    }


@router.answers(rest.S3_KEYS)
def listing(call: Called) -> JsonAnswer[S3KeysAnswer]:
    """All keys, without their secrets; for who is no administrator, those that the same token
    made."""
    return answer({"items": s3_keys.listing(call.context, parent=_owner(call)), "next": None})


@router.responds(rest.REVOKE_S3_KEY)
def revoke(
    call: Called, key: Annotated[str, Path(pattern=r"^[^\x00-\x1f\x7f]{1,100}$")]
) -> Response:
    """End a key now: that with this access key, or else the live one with this name."""
    s3_keys.revoke(call.context, key, parent=_owner(call))
    return Response(status_code=204)

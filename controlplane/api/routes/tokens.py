"""Making, listing and revoking tokens. A token's text is in one answer, and never again."""

from __future__ import annotations

from typing import Annotated

from fastapi import Path, Response
from pydantic import Field

from controlplane.api import auth
from controlplane.api.calls import Called, ClosedBody, JsonAnswer, answer
from controlplane.api.problem_json import RequestRefused
from controlplane.core import rest
from controlplane.core.model.access import Token
from controlplane.core.model.answers import NewTokenAnswer, TokensAnswer
from controlplane.core.rights import ROLE_NAME, TokenScope
from controlplane.operations.desired import namespaces, tokens
from controlplane.operations.request_body import Label

router = auth.router("admin")


RoleName = Annotated[
    str,
    Field(
        pattern=f"^{ROLE_NAME}$",
        description="view, data, operate, edit, admin, driver, or a role of one's own.",
    ),
]
Pattern = Annotated[str, Field(max_length=400)]
Patterns = Annotated[list[Pattern], Field(max_length=100)]


class Within(ClosedBody):
    """Patterns of names with `*` and `?`; a list that is empty narrows nothing."""

    dataflows: Patterns = Field(default=[])
    datasets: Patterns = Field(default=[])
    branches: Patterns = Field(default=[])

    def token_scope(self) -> TokenScope:
        return TokenScope(tuple(self.dataflows), tuple(self.datasets), tuple(self.branches))


class NewToken(ClosedBody):
    """What a token may do (docs/rights.md), within which names, and for how long. `namespace`:
    another one than the caller's, which administrators of the installation may name."""

    name: Label
    scopes: list[RoleName] = Field(["admin"], min_length=1, max_length=20)
    within: Within = Within()
    namespace: str | None = Field(None, max_length=100)
    ttl_s: float | None = Field(None, gt=0, le=10 * 366 * 86400)


@router.answers(rest.CREATE_TOKEN)
def create(call: Called, new: NewToken) -> JsonAnswer[NewTokenAnswer]:
    """Make a token; keep its text, which is not stored. So a repeat with an Idempotency-Key cannot
    be answered."""
    if call.repeat is not None:
        raise RequestRefused(
            "not-supported", "an Idempotency-Key cannot go with a token: its text is shown once"
        )
    scopes = tuple(dict.fromkeys(new.scopes))
    within = new.within.token_scope()
    namespace = new.namespace or call.context.namespace
    text, token = namespaces.create_token(
        call.context, namespace, new.name, scopes, ttl_s=new.ttl_s, within=within
    )
    return answer(_shown(text, token), 201)


def _shown(text: str, token: Token) -> NewTokenAnswer:
    return {
        "token": text,
        "id": token.id,
        "name": token.name,
        "namespace": token.namespace,
        "scopes": list(token.scopes),
        "at": token.at,
        "expires": token.expires,
        "within": tokens.shown(token.within),
    }


@router.answers(rest.TOKENS)
def listing(call: Called) -> JsonAnswer[TokensAnswer]:
    """All tokens, without their texts."""
    return answer({"items": tokens.listing(call.context), "next": None})


@router.responds(rest.REVOKE_TOKEN)
def revoke(
    call: Called, id: Annotated[str, Path(pattern=r"^[^\x00-\x1f\x7f]{1,100}$")]
) -> Response:
    """End a token now: that with this id, or else the live one with this name."""
    tokens.revoke(call.context, id)
    return Response(status_code=204)

"""Rules of trust, and the exchange of identity tokens for tokens of ours. Rules are for
administrators."""

from __future__ import annotations

from typing import Annotated, Literal

from anyio import to_thread
from fastapi import Path, Request, Response
from pydantic import Field

from controlplane.api import auth
from controlplane.api.auth import EncodedRoute
from controlplane.api.authentication import services
from controlplane.api.calls import Called, ClosedBody, JsonAnswer, answer
from controlplane.api.problem_json import RequestRefused, request_id
from controlplane.api.routes.tokens import RoleName, Within
from controlplane.core import rest
from controlplane.core.errors import HeadgateError
from controlplane.core.model import namespaces
from controlplane.core.model.access import Token
from controlplane.core.model.answers.trust import ExchangeAnswer, TrustAnswer, TrustEntry
from controlplane.core.model.namespaces import DEFAULT
from controlplane.core.model.trust import TrustRule
from controlplane.core.trust_rules import LONGEST_S, MOST_CLAIMS, MOST_PATTERNS, NAME
from controlplane.operations.context import Context
from controlplane.operations.desired import tokens, trust

router = auth.router("admin")
public = auth.Routes(route_class=EncodedRoute)
Pattern = Annotated[str, Field(min_length=1, max_length=500)]
Patterns = Annotated[list[Pattern], Field(min_length=1, max_length=MOST_PATTERNS)]


class NewRule(ClosedBody):
    """Whose identity tokens open what (docs/rights.md). `audience`: of `exchange` alone."""

    name: str = Field(pattern=f"^{NAME}$")
    use: Literal["login", "exchange"]
    issuer: str = Field(max_length=500)
    audience: str = Field("", max_length=500)
    claims: dict[str, Patterns] = Field(min_length=1, max_length=MOST_CLAIMS)
    scopes: list[RoleName] = Field(min_length=1, max_length=20)
    within: Within = Within()
    ttl_s: float | None = Field(None, gt=0, le=LONGEST_S["login"])


class IdentityToken(ClosedBody):
    """A JWT of an issuer that a rule of the namespace trusts."""

    token: str = Field(min_length=1, max_length=16_000)
    namespace: str = Field(DEFAULT, max_length=namespaces.LONGEST, pattern=f"^{namespaces.NAME}$")


@router.answers(rest.CREATE_TRUST)
def create(call: Called, new: NewRule) -> JsonAnswer[TrustEntry]:
    """Make a rule of trust."""

    def work() -> JsonAnswer[TrustEntry]:
        rule = trust.create(
            call.context,
            new.name,
            new.use,
            new.issuer,
            new.claims,
            new.scopes,
            audience=new.audience,
            within=new.within.token_scope(),
            ttl_s=new.ttl_s,
        )
        return answer(rule, 201)

    return call.once(work)


@router.answers(rest.TRUST)
def listing(call: Called) -> JsonAnswer[TrustAnswer]:
    """All rules of trust."""
    return answer({"items": trust.listing(call.context), "next": None})


@router.responds(rest.DELETE_TRUST)
def delete(call: Called, rule: Annotated[str, Path(pattern=f"^{NAME}$")]) -> Response:
    """End a rule now, and all tokens and sessions that it opened."""
    trust.delete(call.context, rule)
    return Response(status_code=204)


@public.answers(rest.EXCHANGE)
async def exchange(request: Request, shown: IdentityToken) -> JsonAnswer[ExchangeAnswer]:
    """A short-lived token for the identity token of a CI job, by the rule of trust that fits it.
    The identity token is what opens this call."""
    app_services = services(request)
    if app_services.issuers is None:
        raise RequestRefused("not-supported", "this process exchanges no identity tokens")
    context = Context(app_services.store, namespace=shown.namespace, request_id=request_id(request))
    users, issuers = app_services.threads.users, app_services.issuers
    try:
        issuer, audiences = await to_thread.run_sync(
            trust.candidates, context, issuers, shown.token, limiter=users
        )
        # In threads of their own, and without a transaction: an issuer may be slow
        claims = await to_thread.run_sync(
            issuers.claims, shown.token, issuer, audiences, limiter=app_services.threads.issuers
        )
        text, token, rule = await to_thread.run_sync(
            trust.exchange, context, issuer, audiences, claims, limiter=users
        )
    except HeadgateError:
        app_services.counters.add("token_failures")
        raise
    return answer(_shown(text, token, rule), 201)


def _shown(text: str, token: Token, rule: TrustRule) -> ExchangeAnswer:
    return {
        "token": text,
        "id": token.id,
        "name": token.name,
        "scopes": list(token.scopes),
        "at": token.at,
        "expires": token.expires,
        "within": tokens.shown(token.within),
        "namespace": token.namespace,
        "rule": rule.name,
    }

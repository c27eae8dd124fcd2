"""A running service that trusts a running issuer. Does not belong here: what either should
answer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol, cast

import httpx2

from controlplane.api.services import Services
from controlplane.core.model.answers.trust import TrustEntry
from controlplane.core.model.json_values import JsonObject
from controlplane.core.model.trust import Use
from controlplane.issuers.identity_tokens import JwtIssuers
from controlplane.issuers.oidc_sign_on import OidcSignOn
from controlplane.lake.lake_objects import open_lake
from controlplane.operations.context import Context
from controlplane.operations.desired import tokens, trust
from controlplane.reconciler.wake import WakeCounter
from controlplane.settings import SignOnSettings
from tests.issuer import CLIENT, Issuer, issuing
from tests.stores import new_store
from tests.unit.api.world import render, serving

AUDIENCE = "https://headgate.example.com"
JOB = {
    "sub": "repo:acme/flows:ref:refs/heads/main",
    "repository": "acme/flows",
    "ref": "refs/heads/main",
    "event_name": "push",
    "run_id": "77",
}


@dataclass(frozen=True)
class Trusting:
    """A service and its issuer, with a token of an administrator."""

    url: str
    services: Services
    issuer: Issuer
    client: OidcSignOn
    admin: str

    @property
    def context(self) -> Context:
        return Context(self.services.store, actor="ada")

    def http(self, token: str | None = None) -> httpx2.Client:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        return httpx2.Client(base_url=self.url, headers=headers, trust_env=False, timeout=30)

    def trust(
        self,
        name: str,
        use: Use,
        claims: dict[str, list[str]],
        roles: Sequence[str],
        *,
        namespace: str = "default",
        **more: Any,
    ) -> TrustEntry:
        audience = {} if use == "login" else {"audience": AUDIENCE}
        return trust.create(
            replace(self.context, namespace=namespace),
            name,
            use,
            self.issuer.url,
            claims,
            roles,
            **{**audience, **more},
        )

    def exchange(self, identity: str) -> httpx2.Response:
        with self.http() as http:
            return http.post("/v1/tokens/exchange", json={"token": identity})

    def job(self, **claims: Any) -> str:
        return self.issuer.token(AUDIENCE, **{**JOB, **claims})

    def audit(self, action: str) -> list[tuple[str, JsonObject]]:
        """Who did it, and what the audit keeps of it."""
        with self.services.store.read() as tx:
            return [
                (c.actor, cast("JsonObject", c.after))
                for c in tx.audit.changes("main", 100)
                if c.action == action
            ]


@dataclass(frozen=True)
class Told:
    """What came of a command."""

    code: int
    out: str
    err: str


class Command(Protocol):
    def __call__(self, *arguments: str, **variables: str) -> Told: ...


@contextmanager
def trusting(home: Path) -> Iterator[Trusting]:
    store = new_store()
    admin, _ = tokens.create(Context(store), "ada", ("admin",))
    with issuing() as issuer:
        issuers = JwtIssuers()
        client = OidcSignOn(
            SignOnSettings(issuer.url, CLIENT, issuer.secret, label="Acme ID"), issuers
        )
        services = Services(
            store, open_lake(str(home)), WakeCounter(), render, lambda driver, lines: ""
        )
        known = replace(services, issuers=issuers, sign_on=client)
        try:
            with serving(known) as url:
                yield Trusting(url, known, issuer, client, admin)
        finally:
            store.close()

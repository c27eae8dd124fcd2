"""Who may do what: tokens, roles, trust, S3 keys, namespaces, and the audit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, cast

from controlplane.client.connection import Connection
from controlplane.client.requests import only_given, segment

if TYPE_CHECKING:
    from controlplane.core.model.answers import (
        AuditAnswer,
        NewS3KeyAnswer,
        NewTokenAnswer,
        ReadsAnswer,
        S3KeyEntry,
        SessionLinkAnswer,
        TokenEntry,
    )
    from controlplane.core.model.answers.namespaces import NamespaceEntry
    from controlplane.core.model.answers.roles import RoleEntry
    from controlplane.core.model.answers.trust import ExchangeAnswer, TrustEntry
    from controlplane.core.model.json_values import JsonObject


class Access(Connection):
    """Tokens, roles, trust, S3 keys, namespaces, and the audit."""

    def create_token(
        self,
        name: str,
        scopes: Iterable[str] = ("admin",),
        *,
        ttl_s: float | None = None,
        dataflows: Iterable[str] = (),
        datasets: Iterable[str] = (),
        branches: Iterable[str] = (),
        namespace: str | None = None,
    ) -> NewTokenAnswer:
        """Make a token; its text is under `token`, in this answer only. `scopes`: roles (docs/rights.md), or `driver`.
        `namespace`: another one than ours. The others are patterns of names that it is narrowed to."""
        within = {"dataflows": list(dataflows), "datasets": list(datasets), "branches": list(branches)}
        body: JsonObject = {"name": name, "scopes": list(scopes), "ttl_s": ttl_s, "within": cast("JsonObject", within)}
        if namespace is not None:
            body["namespace"] = namespace
        return self._post("/v1/tokens", body)

    def create_namespace(self, name: str) -> NamespaceEntry:
        """An empty namespace. For administrators of the installation, as all about namespaces."""
        return self._post("/v1/namespaces", {"name": name})

    def namespaces(self) -> list[NamespaceEntry]:
        """All namespaces, `default` first."""
        return self._items("/v1/namespaces")

    def namespace(self, name: str) -> NamespaceEntry:
        """One namespace."""
        return self._get(f"/v1/namespaces/{segment(name)}")

    def delete_namespace(self, name: str) -> None:
        """End a namespace without dataflows."""
        self._delete(f"/v1/namespaces/{segment(name)}")

    def tokens(self) -> list[TokenEntry]:
        return self._items("/v1/tokens")

    def exchange(self, identity: str, namespace: str = "default") -> ExchangeAnswer:
        """A short-lived token for the identity token (JWT) of a CI job, by a rule of trust of the namespace. Its own
        token is not looked at."""
        body: JsonObject = {"token": identity, "namespace": namespace}
        return self._post("/v1/tokens/exchange", body)

    def create_trust(
        self,
        name: str,
        use: Literal["login", "exchange"],
        issuer: str,
        claims: Mapping[str, Sequence[str]],
        scopes: Sequence[str],
        *,
        audience: str = "",
        ttl_s: float | None = None,
        dataflows: Sequence[str] = (),
        datasets: Sequence[str] = (),
        branches: Sequence[str] = (),
    ) -> TrustEntry:
        """A rule: identity tokens of this issuer whose claims fit open tokens (`exchange`) or sessions (`login`)."""
        within: JsonObject = {"dataflows": [*dataflows], "datasets": [*datasets], "branches": [*branches]}
        body: JsonObject = {"name": name, "use": use, "issuer": issuer, "audience": audience, "scopes": [*scopes]}
        body |= {"claims": {claim: [*patterns] for claim, patterns in claims.items()}, "within": within, "ttl_s": ttl_s}
        return self._post("/v1/trust", body)

    def trust(self) -> list[TrustEntry]:
        """All rules of trust in issuers."""
        return self._items("/v1/trust")

    def delete_trust(self, name: str) -> None:
        """End a rule now, and all tokens and sessions that it opened."""
        self._delete(f"/v1/trust/{segment(name)}")

    def create_role(
        self,
        name: str,
        permissions: Sequence[str],
        *,
        dataflows: Sequence[str] = (),
        datasets: Sequence[str] = (),
        branches: Sequence[str] = (),
    ) -> RoleEntry:
        """A role, which tokens and rules of trust name."""
        body = _role_body(permissions, dataflows, datasets, branches)
        return self._post("/v1/roles", {"name": name, **body})

    def change_role(
        self,
        name: str,
        permissions: Sequence[str],
        *,
        dataflows: Sequence[str] = (),
        datasets: Sequence[str] = (),
        branches: Sequence[str] = (),
    ) -> RoleEntry:
        """All that a role allows from now on, for all who have it."""
        body = _role_body(permissions, dataflows, datasets, branches)
        return self._put(f"/v1/roles/{segment(name)}", body)

    def roles(self) -> list[RoleEntry]:
        """All roles, those that are built in first."""
        return self._items("/v1/roles")

    def role(self, name: str) -> RoleEntry:
        return self._get(f"/v1/roles/{segment(name)}")

    def delete_role(self, name: str) -> None:
        """Delete a role without holders."""
        self._delete(f"/v1/roles/{segment(name)}")

    def revoke_token(self, token: str) -> None:
        """End the token with this id, or else the live one with this name."""
        self._delete(f"/v1/tokens/{segment(token)}")

    def create_s3_key(
        self, name: str, read: Iterable[str] = ("main",), *, ttl_s: float | None = None
    ) -> NewS3KeyAnswer:
        """Make an S3 key that reads these scopes (docs/s3.md); its secret is in this answer only."""
        body = {"name": name, "read": list(read), "ttl_s": ttl_s}
        made: NewS3KeyAnswer = self._post("/v1/s3/keys", body)
        return {**made, "endpoint": self.url}  # where the caller found the service

    def s3_keys(self) -> list[S3KeyEntry]:
        return self._items("/v1/s3/keys")

    def session_link(self) -> SessionLinkAnswer:
        """A link that opens one session of the pages with this client's token, once, within five minutes."""
        return self._post("/v1/session-links", {})

    def revoke_s3_key(self, key: str) -> None:
        """End the S3 key with this access key, or else the live one with this name."""
        self._delete(f"/v1/s3/keys/{segment(key)}")

    def audit(
        self,
        limit: int = 100,
        *,
        branch: str | None = "main",
        since: str | None = None,
        until: str | None = None,
    ) -> AuditAnswer:
        """Changes of a branch and of none, or of all with None, the last ones first. `since`, `until`: times with their
        zones; entries before `until`."""
        of = {"all_branches": "true"} if branch is None else {"branch": branch}
        return self._get("/v1/audit", {**of, **only_given(limit=limit, since=since, until=until)})

    def audit_reads(
        self, limit: int = 100, *, branch: str | None = None, since: str | None = None, until: str | None = None
    ) -> ReadsAnswer:
        """Who read rows of which dataset, as `audit`."""
        query = only_given(limit=limit, branch=branch, since=since, until=until)
        return self._get("/v1/audit/reads", query)


def _role_body(
    permissions: Sequence[str], dataflows: Sequence[str], datasets: Sequence[str], branches: Sequence[str]
) -> JsonObject:
    within: JsonObject = {"dataflows": [*dataflows], "datasets": [*datasets], "branches": [*branches]}
    return {"permissions": [*permissions], "within": within}

"""Who may do what: tokens, roles, trust, S3 keys, namespaces, and the audit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal

from controlplane.client.connection import HttpConnection
from controlplane.core import rest

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


class AccessCalls(HttpConnection):
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
        """Make a token; its text is under `token`, in this answer only. `scopes`: roles
        (docs/rights.md), or `driver`. `namespace`: another one than ours. The others are patterns
        of names that it is narrowed to."""
        within = {
            "dataflows": list(dataflows),
            "datasets": list(datasets),
            "branches": list(branches),
        }
        other = {} if namespace is None else {"namespace": namespace}
        return self._call(
            rest.CREATE_TOKEN, name=name, scopes=list(scopes), ttl_s=ttl_s, within=within, **other
        )

    def create_namespace(self, name: str) -> NamespaceEntry:
        """An empty namespace. For administrators of the installation, as all about namespaces."""
        return self._call(rest.CREATE_NAMESPACE, name=name)

    def namespaces(self) -> list[NamespaceEntry]:
        """All namespaces, `default` first."""
        return self._call(rest.NAMESPACES)["items"]

    def namespace(self, name: str) -> NamespaceEntry:
        """One namespace."""
        return self._call(rest.NAMESPACE, namespace=name)

    def delete_namespace(self, name: str) -> None:
        """End a namespace without dataflows."""
        self._call(rest.DELETE_NAMESPACE, namespace=name)

    def tokens(self) -> list[TokenEntry]:
        return self._call(rest.TOKENS)["items"]

    def exchange(self, identity: str, namespace: str = "default") -> ExchangeAnswer:
        """A short-lived token for the identity token (JWT) of a CI job, by a rule of trust of the
        namespace. Its own token is not looked at."""
        return self._call(rest.EXCHANGE, token=identity, namespace=namespace)

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
        """A rule: identity tokens of this issuer whose claims fit open tokens (`exchange`) or
        sessions (`login`)."""
        rule = {
            "name": name,
            "use": use,
            "issuer": issuer,
            "audience": audience,
            "scopes": [*scopes],
        }
        fitting = {claim: [*patterns] for claim, patterns in claims.items()}
        within = {"dataflows": [*dataflows], "datasets": [*datasets], "branches": [*branches]}
        return self._call(rest.CREATE_TRUST, claims=fitting, within=within, ttl_s=ttl_s, **rule)

    def trust(self) -> list[TrustEntry]:
        """All rules of trust in issuers."""
        return self._call(rest.TRUST)["items"]

    def delete_trust(self, name: str) -> None:
        """End a rule now, and all tokens and sessions that it opened."""
        self._call(rest.DELETE_TRUST, rule=name)

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
        return self._call(
            rest.CREATE_ROLE, name=name, **_role_body(permissions, dataflows, datasets, branches)
        )

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
        return self._call(
            rest.CHANGE_ROLE, role=name, **_role_body(permissions, dataflows, datasets, branches)
        )

    def roles(self) -> list[RoleEntry]:
        """All roles, those that are built in first."""
        return self._call(rest.ROLES)["items"]

    def role(self, name: str) -> RoleEntry:
        return self._call(rest.ROLE, role=name)

    def delete_role(self, name: str) -> None:
        """Delete a role without holders."""
        self._call(rest.DELETE_ROLE, role=name)

    def revoke_token(self, token: str) -> None:
        """End the token with this id, or else the live one with this name."""
        self._call(rest.REVOKE_TOKEN, id=token)

    def create_s3_key(
        self, name: str, read: Iterable[str] = ("main",), *, ttl_s: float | None = None
    ) -> NewS3KeyAnswer:
        """Make an S3 key that reads these scopes (docs/s3.md); its secret is in this answer
        only."""
        made = self._call(rest.CREATE_S3_KEY, name=name, read=list(read), ttl_s=ttl_s)
        return {**made, "endpoint": self.url}  # where the caller found the service

    def s3_keys(self) -> list[S3KeyEntry]:
        return self._call(rest.S3_KEYS)["items"]

    def session_link(self) -> SessionLinkAnswer:
        """A link that opens one session of the pages with this client's token, once, within five
        minutes."""
        return self._call(rest.SESSION_LINK)

    def revoke_s3_key(self, key: str) -> None:
        """End the S3 key with this access key, or else the live one with this name."""
        self._call(rest.REVOKE_S3_KEY, key=key)

    def audit(
        self,
        limit: int = 100,
        *,
        branch: str | None = "main",
        since: str | None = None,
        until: str | None = None,
    ) -> AuditAnswer:
        """Changes of a branch and of none, or of all with None, the last ones first. `since`,
        `until`: times with their zones; entries before `until`."""
        everywhere = True if branch is None else None
        return self._call(
            rest.AUDIT,
            limit=limit,
            branch=branch,
            since=since,
            until=until,
            all_branches=everywhere,
        )

    def audit_reads(
        self,
        limit: int = 100,
        *,
        branch: str | None = None,
        since: str | None = None,
        until: str | None = None,
    ) -> ReadsAnswer:
        """Who read rows of which dataset, as `audit`."""
        return self._call(rest.AUDIT_READS, limit=limit, branch=branch, since=since, until=until)


def _role_body(
    permissions: Sequence[str],
    dataflows: Sequence[str],
    datasets: Sequence[str],
    branches: Sequence[str],
) -> JsonObject:
    within: JsonObject = {
        "dataflows": [*dataflows],
        "datasets": [*datasets],
        "branches": [*branches],
    }
    return {"permissions": [*permissions], "within": within}

"""What issuers publish, and for how long it is kept: their metadata and their public keys.

Metadata: OpenID Connect Discovery 1.0. Keys: RFC 7517. An unknown key id has the keys fetched
again, because issuers change keys; but not more often than every half minute, because any client
can make up a key id.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from controlplane.core.errors import IssuerUnreachable
from controlplane.core.model.json_values import JsonObject, JsonValue
from controlplane.core.trust_rules import is_address
from controlplane.issuers import fetching

KEPT_S = 600.0  # a key that the issuer takes back is used no longer
AGAIN_S = 30.0  # between two looks for an unknown key
FAILED_S = 5.0  # for which an issuer that did not answer is not asked again
MOST_ISSUERS = 100
MOST_KEYS = 100
Fetch: TypeAlias = Callable[[str], JsonObject]
KIND: Final = {
    **dict.fromkeys(("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"), "RSA"),
    **dict.fromkeys(("ES256", "ES384", "ES512"), "EC"),
    "EdDSA": "OKP",
}
"""The algorithms of signatures that are accepted, with the kind of their keys: no `none`, and no
shared secrets."""


@dataclass(slots=True)
class Published:
    """What one issuer publishes. Safe to use from many threads: one of them sends the request, the
    others wait for its answer."""

    issuer: str
    fetch: Fetch = fetching.get
    clock: Callable[[], float] = time.monotonic
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _metadata: JsonObject = field(default_factory=dict)
    _keys: tuple[JsonObject, ...] = ()
    _fetched: float | None = None
    _failed: tuple[float, str] | None = None

    def metadata(self) -> JsonObject:
        """Raises IssuerUnreachable."""
        with self._lock:
            self._refresh_after(KEPT_S)
            return self._metadata

    def key(self, id: str | None, algorithm: str) -> JsonObject | None:
        """The public key (a JWK) with this id that fits the algorithm; None if the issuer has none.
        Raises IssuerUnreachable."""
        with self._lock:
            self._refresh_after(KEPT_S)
            public_key = self._find(id, algorithm)
            if public_key is None:
                self._refresh_after(AGAIN_S)
                public_key = self._find(id, algorithm)
            return public_key

    def _find(self, id: str | None, algorithm: str) -> JsonObject | None:
        """Without an id only where there is no choice."""
        fitting = [key for key in self._keys if _fits(key, algorithm)]
        if id is None:
            return fitting[0] if len(fitting) == 1 else None
        return next((key for key in fitting if key.get("kid") == id), None)

    def _refresh_after(self, age_s: float) -> None:
        now = self.clock()
        if self._fetched is not None and now - self._fetched < age_s:
            return
        if self._failed is not None and now - self._failed[0] < FAILED_S:
            raise IssuerUnreachable(self._failed[1])
        try:
            self._refresh()
        except IssuerUnreachable as e:
            self._failed = (self.clock(), str(e))
            raise
        self._fetched, self._failed = self.clock(), None

    def _refresh(self) -> None:
        metadata = self.fetch(f"{self.issuer.rstrip('/')}/.well-known/openid-configuration")
        if metadata.get("issuer") != self.issuer:
            name = str(metadata.get("issuer"))[:200]
            raise IssuerUnreachable(
                f"{self.issuer} calls itself {name!r}; the issuer has to be written as it does"
            )
        keys = self.fetch(address_in(metadata, "jwks_uri")).get("keys")
        if not isinstance(keys, list):
            raise IssuerUnreachable(f"{self.issuer} publishes no keys")
        self._metadata, self._keys = (
            metadata,
            tuple(key for key in keys[:MOST_KEYS] if isinstance(key, dict)),
        )


def address_in(metadata: JsonObject, name: str) -> str:
    """An address that an issuer publishes. Raises IssuerUnreachable."""
    address = metadata.get(name)
    if not isinstance(address, str) or not is_address(address):
        raise IssuerUnreachable(
            f"the metadata of the issuer {metadata.get('issuer')} has no {name} with https"
        )
    return address


def _fits(key: JsonObject, algorithm: str) -> bool:
    uses: tuple[JsonValue, ...] = (None, "sig")
    algorithms: tuple[JsonValue, ...] = (None, algorithm)
    return (
        key.get("kty") == KIND[algorithm]
        and key.get("use") in uses
        and key.get("alg") in algorithms
    )


@dataclass(slots=True)
class Publications:
    """The keys of the issuers that were looked up, which are those that rules name."""

    fetch: Fetch = fetching.get
    clock: Callable[[], float] = time.monotonic
    _by_issuer: dict[str, Published] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def of(self, issuer: str) -> Published:
        with self._lock:
            if issuer not in self._by_issuer:
                if len(self._by_issuer) >= MOST_ISSUERS:
                    self._by_issuer.clear()
                self._by_issuer[issuer] = Published(issuer, self.fetch, self.clock)
            return self._by_issuer[issuer]

"""A schema registry: the schemas under which a topic's values were written, over HTTP by
Confluent's API."""

from __future__ import annotations

import ssl
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

import httpx2

from dataplane.connectors.kafka.kafka_client import OWN, REGISTRY
from dataplane.contract.jobs import ConnectorSettings
from dataplane.contract.schemas import Json
from dataplane.secrets import resolved
from dataplane.task_failures import TaskFailure

ANSWER_S, CONNECT_S = 20.0, 5.0


@dataclass(frozen=True, slots=True)
class Registry:
    """Where it is, and who asks. May be sent to Spark's workers."""

    url: str
    user: str = ""
    password: str = field(default="", repr=False)
    authorities: str = ""  # a file of certificates to trust

    @staticmethod
    def of(settings: ConnectorSettings) -> Registry:
        user, password, trusted = (
            resolved(settings.get(OWN + REGISTRY + name, ""))
            for name in ("username", "password", "ca.location")
        )
        return Registry(settings["registry"].rstrip("/"), user, password, trusted)

    def newest(self, subject: str) -> int:
        """The id of the newest schema of a subject. TaskFailure `schema-not-found` where it has
        none."""
        version = self._get(
            f"subjects/{quote(subject, safe='')}/versions/latest", f"schema of {subject}"
        )
        return int(version["id"])

    def texts(self, id: int) -> tuple[str, ...]:
        """The Avro schema of this id, behind all those that it refers to."""
        return tuple(self._behind(self._get(f"schemas/ids/{id}", f"schema {id}"), set()))

    def _behind(self, answer: Mapping[str, Json], visited: set[tuple[str, int]]) -> Iterator[str]:
        """A schema as the registry gives it, after those that it refers to which are not in
        `visited`."""
        if (kind := answer.get("schemaType") or "AVRO") != "AVRO":
            raise TaskFailure(
                "not-supported",
                f"the schema registry at {self.url} has a schema of {kind}, not of Avro",
            )
        for reference in answer.get("references") or ():
            place = (reference["subject"], reference["version"])
            if place not in visited:
                visited.add(place)
                path = f"subjects/{quote(place[0], safe='')}/versions/{place[1]}"
                yield from self._behind(self._get(path, f"schema of {place[0]}"), visited)
        yield answer["schema"]

    def _get(self, path: str, what: str) -> Mapping[str, Json]:
        try:
            answer = self._request(path)
            if answer.status_code == 404:
                raise TaskFailure(
                    "schema-not-found", f"the schema registry at {self.url} has no {what}"
                )
            if answer.status_code in (401, 403):
                message = f"the schema registry at {self.url} does not accept user or password"
                raise TaskFailure("credentials-refused", message)
            answer.raise_for_status()
            body: Mapping[str, Json] = answer.json()
        except (httpx2.HTTPError, ValueError, OSError) as e:
            raise self._refused(e) from e
        return body

    def _request(self, path: str) -> httpx2.Response:
        trusted: Any = (
            ssl.create_default_context(cafile=self.authorities) if self.authorities else True
        )
        login = (self.user, self.password) if self.user else None
        limits = httpx2.Timeout(ANSWER_S, connect=CONNECT_S)
        return httpx2.get(
            f"{self.url}/{path}", auth=login, verify=trusted, timeout=limits, follow_redirects=True
        )

    def _refused(self, error: BaseException) -> TaskFailure:
        causes = [error]
        while causes[-1].__context__ is not None:
            causes.append(causes[-1].__context__)
        if fault := next((c for c in causes if isinstance(c, ssl.SSLError)), None):
            return TaskFailure(
                "tls-failed",
                f"no encrypted connection to the schema registry at {self.url}: {fault}",
            )
        message = f"the schema registry at {self.url} does not answer: {error}"
        return TaskFailure("unreachable", message, "infrastructure")

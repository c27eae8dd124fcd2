"""One connection to a control plane: sending requests, and errors as exceptions."""

from __future__ import annotations

import ssl
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any, Self, TypeVar, cast

import httpx2

from controlplane.client.requests import request_parts

if TYPE_CHECKING:
    from controlplane.core.model.answers import ProblemDocument
    from controlplane.core.model.json_values import JsonObject, JsonValue
    from controlplane.core.rest import Route

Answer = TypeVar("Answer")
CONNECT_TIMEOUT_S = 10.0
TIMEOUT_S = 120.0
LONG_TIMEOUT_S = 6 * 3600.0
# Trusts nothing; the system's take 40 ms to read
NO_CERTIFICATES = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


class ApiError(Exception):
    """The server refused. `problem` is its problem document: type, title, status, detail,
    request_id, errors."""

    def __init__(self, status: int, problem: ProblemDocument) -> None:
        super().__init__(str(problem.get("detail") or problem.get("title") or f"status {status}"))
        self.status, self.problem = status, problem

    @property
    def code(self) -> str:
        return str(self.problem.get("type", "")).removeprefix("urn:headgate:")


class HttpConnection:
    """HTTP with a token. Safe to use from several threads."""

    def __init__(self, url: str, token: str, *, timeout_s: float = TIMEOUT_S) -> None:
        headers = {"Authorization": f"Bearer {token}", "User-Agent": "headgate"}
        is_loopback = _is_loopback(url)
        if is_loopback:
            headers["Accept-Encoding"] = "identity"  # compressing costs more there than it saves
        self._timeout_s = timeout_s
        self._http = httpx2.Client(
            base_url=url,
            headers=headers,
            timeout=httpx2.Timeout(timeout_s, connect=CONNECT_TIMEOUT_S),
            trust_env=not is_loopback,
            verify=NO_CERTIFICATES if is_loopback and url.startswith("http:") else True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._http.close()

    @property
    def url(self) -> str:
        """Where the control plane was found, without a slash at the end."""
        return str(self._http.base_url).rstrip("/")

    def require_alive(self) -> None:
        """Raises an error of httpx2 where no server answers; any answer will do."""
        self._http.get("/livez")

    def is_ready(self) -> bool:
        try:
            return self._http.get("/readyz").status_code == 200
        except httpx2.TransportError:
            return False

    def _call(
        self,
        route: Route[Answer],
        timeout_s: float | None = None,
        headers: Mapping[str, str] | None = None,
        /,
        **arguments: object,
    ) -> Answer:
        """The answer of a route. Arguments are names in its path, of its query, and of its body.
        `timeout_s`: how long the answer may take; the usual time by default."""
        request = self._request(route, timeout_s, headers, arguments)
        return cast("Answer", value_of(self._http.send(request)))

    def _text(self, route: Route[str], /, **arguments: object) -> str:
        """The answer of a route that answers a text."""
        response = self._http.send(self._request(route, None, None, arguments))
        return response.text if response.status_code < 400 else str(value_of(response))

    @contextmanager
    def _stream(
        self,
        route: Route[Any],
        timeout_s: float | None = None,
        headers: Mapping[str, str] | None = None,
        /,
        **arguments: object,
    ) -> Iterator[httpx2.Response]:
        """The response of a route, whose body is still to come. `timeout_s`: how long each part of
        it may take."""
        request = self._request(route, timeout_s, headers, arguments)
        with closing(self._http.send(request, stream=True)) as response:
            if response.status_code >= 400:
                response.read()
                value_of(response)
            yield response

    def _request(
        self,
        route: Route[Any],
        timeout_s: float | None,
        headers: Mapping[str, str] | None,
        arguments: Mapping[str, object],
    ) -> httpx2.Request:
        path, query, body = request_parts(route, arguments)
        seconds = self._waiting(None) if timeout_s is None else timeout_s
        timeout = httpx2.Timeout(seconds, connect=CONNECT_TIMEOUT_S)
        return self._http.build_request(
            route.method, path, params=query, json=body, headers=headers, timeout=timeout
        )

    def _waiting(self, wait_s: float | None) -> float:
        """The timeout of a request that may wait `wait_s` for workers, in seconds."""
        return self._timeout_s + (wait_s or 0.0)


def value_of(response: httpx2.Response) -> JsonObject:
    if response.status_code == 204:
        return {}
    body = _json(response)
    if response.is_success and isinstance(body, dict):
        return body
    raise ApiError(response.status_code, _problem(body) or _unexpected(response))


def _json(response: httpx2.Response) -> JsonValue:
    try:
        return cast("JsonValue", response.json())
    except ValueError:
        return None


def _problem(body: JsonValue) -> ProblemDocument | None:
    if isinstance(body, dict) and "type" in body:
        return cast("ProblemDocument", body)
    return None


def _unexpected(response: httpx2.Response) -> ProblemDocument:
    """The problem of an answer that is not from Headgate, such as a redirect to another address."""
    where = (
        f", with a way to {response.headers['location']}" if "location" in response.headers else ""
    )
    detail = f"{response.url.host} answered {response.status_code}{where}, and not as Headgate does"
    return {
        "type": "urn:headgate:unexpected-answer",
        "status": response.status_code,
        "detail": detail,
        "errors": [],
    }


def _is_loopback(url: str) -> bool:
    """A server on this machine is never called through a proxy."""
    return httpx2.URL(url).host in ("127.0.0.1", "localhost", "::1")

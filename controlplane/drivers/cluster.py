"""The API of a cluster as plain JSON: a few calls, an error class for each kind of failure.

The one user of the Kubernetes client, which finds addresses, certificates and tokens (and renews
them); its thousands of models are not used.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import quote, urlencode

from kubernetes.client import ApiClient, Configuration
from kubernetes.client.exceptions import ApiException
from kubernetes.config import ConfigException, load_incluster_config, load_kube_config
from urllib3.exceptions import HTTPError
from urllib3.util.retry import Retry

from controlplane.core.errors import HeadgateError, PoolUnavailable

Json: TypeAlias = dict[str, Any]
JOBS, PODS, SECRETS, EVENTS = "batch/v1/jobs", "v1/pods", "v1/secrets", "v1/events"
JSON = "application/json"
PAGE = 500
# When to try again is decided above; but a kept connection may turn out to be closed at its next
# use.
ONCE_MORE = Retry(
    None,
    connect=0,
    read=1,
    status=0,
    other=0,
    allowed_methods=("GET",),
    respect_retry_after_header=False,
)
CONNECT_S, ANSWER_S, WATCH_S = 5.0, 30.0, 240.0


class ApiRefused(HeadgateError):
    """The cluster rejects an object that it should create."""

    code = "cluster-refused"

    def __init__(self, status: int, message: str, reason: str = "") -> None:
        """`reason`: Kubernetes' own word; a status has several."""
        super().__init__(message)
        self.status, self.reason = status, reason


class Api:
    """One namespace of a cluster. Raises PoolUnavailable where nothing can be known or done,
    ApiRefused where an object to create is rejected."""

    def __init__(self, namespace: str, configuration: Configuration) -> None:
        configuration.retries = ONCE_MORE
        self._namespace, self._client = namespace, ApiClient(configuration)

    @classmethod
    def open(cls, namespace: str, kubeconfig: Path | None) -> Api:
        """By a kubeconfig file, or by a pod's own service account."""
        configuration = Configuration()
        try:
            if kubeconfig is None:
                load_incluster_config(client_configuration=configuration)
            else:
                load_kube_config(str(kubeconfig), client_configuration=configuration)
        except (ConfigException, OSError) as e:
            raise PoolUnavailable(f"no way to the cluster: {e}") from e
        return cls(namespace, configuration)

    def list(self, resource: str, labels: str = "", fields: str = "") -> list[Json]:
        """All of them, or an error: never a part."""
        objects: list[Json] = []
        token = ""
        while True:
            query = {
                "labelSelector": labels,
                "fieldSelector": fields,
                "limit": str(PAGE),
                "continue": token,
            }
            try:
                page = self._call("GET", self._path(resource, query))
            except ApiRefused as e:
                if e.status != 410 or not token:
                    raise PoolUnavailable(f"{resource} cannot be listed: {e}") from e
                objects, token = [], ""  # the snapshot has grown too old on the way
                continue
            objects += map(_ours, page.get("items") or ())
            token = page.get("metadata", {}).get("continue", "")
            if not token:
                return objects

    def create(self, resource: str, body: Json) -> Json | None:
        """None if there is one of that name."""
        try:
            return self._call("POST", self._path(resource), body)
        except ApiRefused as e:
            if e.reason == "AlreadyExists":
                return None
            if e.status == 409:  # a quota was counted meanwhile
                raise PoolUnavailable(f"{resource} cannot be created at this moment: {e}") from e
            raise

    def delete(self, resource: str, name: str, uid: str) -> None:
        """With all that it owns, before it goes itself; gone already is fine, also if the name is
        another one's now."""
        order = {"propagationPolicy": "Foreground", "preconditions": {"uid": uid}}
        try:
            self._call("DELETE", self._path(resource, name=name), order)
        except ApiRefused as e:
            if e.status not in (404, 409):
                raise PoolUnavailable(f"{name} cannot be ended: {e}") from e

    def log(self, pod: str, container: str, lines: int, limit_bytes: int) -> bytes:
        """The last lines of a container's log. Refused if it has no output yet, or does not
        exist."""
        while True:
            query = {
                "container": container,
                "tailLines": str(lines),
                "limitBytes": str(limit_bytes),
            }
            try:
                text = self._read(
                    "GET", self._path(PODS, query, name=pod, part="log"), accept="*/*"
                )
            except ApiRefused as e:
                if e.status not in (400, 404):
                    raise PoolUnavailable(f"the log of pod {pod} cannot be read: {e}") from e
                raise
            if len(text) < limit_bytes or lines == 1:
                return text
            lines = max(1, lines // 4)  # a limit leaves out the end, which matters most

    def watch(self, resource: str, labels: str) -> Iterator[None]:
        """Something may have happened. Ends after a while, or raises PoolUnavailable."""
        query = {"labelSelector": labels, "watch": "1", "timeoutSeconds": str(int(WATCH_S))}
        answer = self._answer("GET", self._path(resource, query), None, WATCH_S + ANSWER_S)
        try:
            for _ in answer.response.stream(4096):
                yield
        except (HTTPError, OSError) as e:
            raise PoolUnavailable(f"a watch broke off: {e}") from e
        finally:
            answer.response.release_conn()

    def close(self) -> None:
        self._client.close()

    def _path(
        self,
        resource: str,
        query: Mapping[str, str] | None = None,
        *,
        name: str = "",
        part: str = "",
    ) -> str:
        group, _, kind = resource.rpartition("/")
        root = f"/apis/{group}" if "/" in group else f"/api/{group}"
        place = [
            root,
            "namespaces",
            quote(self._namespace),
            kind,
            *map(quote, filter(None, (name, part))),
        ]
        parameters = {k: v for k, v in (query or {}).items() if v}
        return "/".join(place) + (f"?{urlencode(parameters)}" if parameters else "")

    def _call(self, method: str, path: str, body: Json | None = None) -> Json:
        try:
            answer: Json = json.loads(self._read(method, path, body))
        except ValueError as e:
            raise PoolUnavailable(f"the API server's answer cannot be read: {e}") from e
        return answer

    def _read(
        self, method: str, path: str, body: Json | None = None, *, accept: str = JSON
    ) -> bytes:
        answer = self._answer(method, path, body, ANSWER_S, accept)
        try:
            return bytes(answer.read())
        except (HTTPError, OSError) as e:
            raise PoolUnavailable(f"the API server's answer cannot be read: {e}") from e

    def _answer(
        self, method: str, path: str, body: Json | None, answer_s: float, accept: str = JSON
    ) -> Any:
        headers = {"Accept": accept, "Content-Type": JSON}
        request = self._client.param_serialize(
            method, path, header_params=headers, body=body, auth_settings=["BearerToken"]
        )
        try:
            answer = self._client.call_api(*request, _request_timeout=(CONNECT_S, answer_s))
        except (ApiException, HTTPError, OSError) as e:
            raise PoolUnavailable(f"the API server does not answer: {_words(e)}") from e
        if answer.status >= 400:
            raise _error(answer.status, answer.read())
        return answer


def _ours(item: Json) -> Json:
    """Without the book-keeping of field owners: a good part of each, and of no use here."""
    item["metadata"].pop("managedFields", None)
    return item


def _error(status: int, body: bytes) -> HeadgateError:
    reason = ""
    try:
        status_object = json.loads(body)
        message, reason = (
            str(status_object.get("message") or status),
            str(status_object.get("reason", "")),
        )
    except (ValueError, AttributeError):
        message = body.decode(errors="replace")[:300] or str(status)
    words = f"the API server answers {status}: {message}"
    if status == 429 or status > 500:
        return PoolUnavailable(words)
    # 500: as where a webhook does not answer
    return ApiRefused(status, words if status == 500 else message, reason)


def _words(error: Exception) -> str:
    return " ".join(str(error).split())[:300]

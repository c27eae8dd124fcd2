"""OpenLineage events to a service that speaks OpenLineage over HTTP, one event a request.

The status decides. 2xx: the event is taken. 4xx: it is refused, and would be again. A wrong token
or address, or too many requests, are not the event's fault: they and everything else may be put
right, so the event is tried again.
"""

from __future__ import annotations

from typing import Final

import httpx2

ANSWER_S: Final = 10.0
# Refusals of who asks, where, and when
NOT_BY_THE_EVENT: Final = frozenset({401, 403, 404, 405, 407, 408, 425, 429})


class HttpSink:
    """A service. No redirect is followed: the token is for this address. The body of an answer is
    not read."""

    def __init__(self, url: str, token: str | None = None, answer_s: float = ANSWER_S) -> None:
        headers = {"Content-Type": "application/json", "User-Agent": "headgate"}
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        self._url, self.place = url, url.partition("?")[0]
        self._client = httpx2.Client(headers=headers, timeout=answer_s, follow_redirects=False)

    def send(self, event: bytes) -> bool:
        try:
            with self._client.stream("POST", self._url, content=event) as answer:
                status = answer.status_code
        except (httpx2.HTTPError, httpx2.InvalidURL) as e:
            raise ConnectionError(
                f"{self.place} does not answer: {type(e).__name__}: {e}"
            ) from None
        if 400 <= status < 500 and status not in NOT_BY_THE_EVENT:
            return False
        if not 200 <= status < 300:
            raise ConnectionError(f"{self.place} answered {status}")
        return True

    def close(self) -> None:
        self._client.close()

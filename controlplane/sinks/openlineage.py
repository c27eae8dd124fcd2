"""OpenLineage events to a file, one a line, or to a service that speaks OpenLineage over HTTP.

A service is told one event a request. What it answers decides: 2xx, the event is taken; 4xx, it is refused, and would
be again. A token or an address that is wrong, or too many requests, are not the event's fault: they and everything else
may be put right, so the event is tried again. Does not belong here: the waits between tries.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

import httpx2

from controlplane.ports.lineage_sink import LineageSink

ANSWER_S: Final = 10.0
NOT_BY_THE_EVENT: Final = frozenset({401, 403, 404, 405, 407, 408, 425, 429})  # refusals of who asks, where, and when


def open_sink(url: str, token: str | None = None, answer_s: float = ANSWER_S) -> LineageSink:
    """`file:///folder/events.ndjson` or `http(s)://host/api/v1/lineage`. Nothing is opened or asked yet."""
    if url.startswith("file:"):
        return FileSink(Path(unquote(urlsplit(url).path)))
    return HttpSink(url, token, answer_s)


@dataclass(frozen=True, slots=True)
class FileSink:
    """Appends. The file is opened for each event, so that it may be rotated at any time."""

    path: Path

    @property
    def place(self) -> str:
        return self.path.as_uri()

    def send(self, event: bytes) -> bool:
        with open(self.path, "ab") as file:
            if _is_broken_off(self.path):
                file.write(b"\n")
            file.write(event + b"\n")
            file.flush()
            os.fsync(file.fileno())
        return True

    def close(self) -> None:
        """Nothing is open between events."""


def _is_broken_off(path: Path) -> bool:
    """The last line has no end: whoever wrote it was killed, and its event is sent again."""
    with open(path, "rb") as file:
        if file.seek(0, os.SEEK_END) == 0:
            return False
        file.seek(-1, os.SEEK_END)
        return file.read(1) != b"\n"


class HttpSink:
    """A service. No redirect is followed: the token is for this address. The body of an answer is not read."""

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
            raise ConnectionError(f"{self.place} does not answer: {type(e).__name__}: {e}") from None
        if 400 <= status < 500 and status not in NOT_BY_THE_EVENT:
            return False
        if not 200 <= status < 300:
            raise ConnectionError(f"{self.place} answered {status}")
        return True

    def close(self) -> None:
        self._client.close()

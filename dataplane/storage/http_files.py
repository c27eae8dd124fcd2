"""Files that a web server gives: one request for a file, within bounds, with the headers that a
read component declares.

A redirect is followed to places alone that may be read, and takes no header of the component to
another host.
"""

from __future__ import annotations

import hashlib
import re
import socket
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from email.utils import parsedate_to_datetime
from os import environ
from typing import Any

import httpx2

from dataplane.contract.hosts import REFUSED, is_link_local
from dataplane.contract.jobs import ConnectorJob
from dataplane.secrets import resolved_settings
from dataplane.storage.refused_places import Places
from dataplane.storage.service_hosts import leads_to_link_local
from dataplane.storage.source_stores import (
    Moved,
    StoreAccess,
    etag_of,
    path_of,
    root_of,
    version_by,
)
from dataplane.task_failures import TaskFailure

PREFIX = "http."  # of settings: the headers that the component declares
TIMEOUT_S = 30.0  # between two parts of an answer
ANSWER_S = 60.0  # for all headers of an answer
MOST_REDIRECTS = 5
REST_S = 2  # a time of change is in seconds: a file at rest so long has one state with it
GONE = (404, 410)
UNCHANGED = 304
_REDIRECTS = (301, 302, 303, 307, 308)
_REFUSED = (401, 403)
_DOTS = re.compile(r"(^|[/\\])\.{1,2}([/\\]|$)")


@contextmanager
def opened(job: ConnectorJob, uri: str, conditions: Mapping[str, str]) -> Iterator[httpx2.Response]:
    """The answer of a server for a file: 200, 304, 404, 410 or 412. TaskFailure for any other."""
    declared = resolved_settings(job, PREFIX)
    sent = {"User-Agent": "headgate", "Accept-Encoding": "identity", **conditions, **declared}
    with httpx2.Client(timeout=TIMEOUT_S, follow_redirects=False) as client:
        for _ in range(MOST_REDIRECTS + 1):
            check_place(uri)
            with _answered(client, uri, sent) as answer:
                if answer.status_code not in _REDIRECTS:
                    _check_status(uri, answer.status_code)
                    yield answer
                    return
                target = _target(uri, answer)
            if root_of(target) != root_of(uri):
                sent = {name: text for name, text in sent.items() if name not in declared}
            uri = target
    raise TaskFailure("unreadable", f"{uri}: more than {MOST_REDIRECTS} redirects lead on from it")


@contextmanager
def posted(uri: str, form: Mapping[str, str]) -> Iterator[httpx2.Response]:
    """The answer of a server to a form, of any status. No redirect is followed: a form may hold
    secrets."""
    check_place(uri)
    headers = {"User-Agent": "headgate", "Accept-Encoding": "identity"}
    with (
        httpx2.Client(timeout=TIMEOUT_S, follow_redirects=False) as client,
        _answered(client, uri, headers, form) as answer,
    ):
        yield answer


def check_place(uri: str) -> None:
    """TaskFailure where nothing may be read."""
    Places.of(environ).check_object(root_of(uri), path_of(uri))
    if _DOTS.search(path_of(uri.partition("?")[0])):
        raise TaskFailure("place-refused", f"{uri} holds . or ..: write where the file is")
    host = _host(uri)
    if leads_to_link_local(host):
        raise TaskFailure("place-refused", f"{uri}: {host} {REFUSED}: name the host of a service")


def _host(uri: str) -> str:
    """As the client opens it."""
    try:
        return httpx2.URL(uri).raw_host.decode()
    except httpx2.InvalidURL as e:
        raise TaskFailure("bad-url", f"{uri}: {e}") from e


@contextmanager
def _answered(
    client: httpx2.Client,
    uri: str,
    headers: Mapping[str, str],
    form: Mapping[str, str] | None = None,
) -> Iterator[httpx2.Response]:
    """`form`: sent by POST; without one the file is requested by GET."""
    streams: list[Any] = []  # of the client, as it connects

    def note(event: str, info: Mapping[str, Any]) -> None:
        if event == "connection.connect_tcp.complete":
            _check_peer(uri, info["return_value"])
        if event.endswith((".connect_tcp.complete", ".start_tls.complete")):
            streams.append(info["return_value"])

    timer = threading.Timer(ANSWER_S, lambda: _end(streams))
    timer.daemon = True
    timer.start()
    try:
        with client.stream(
            "POST" if form else "GET",
            uri,
            headers=dict(headers),
            data=form,
            extensions={"trace": note},
        ) as answer:
            timer.cancel()
            yield answer
    except (httpx2.HTTPError, httpx2.InvalidURL) as e:
        message = f"{uri}: the server does not answer: {type(e).__name__}: {e}"
        raise TaskFailure("unreachable", message, "infrastructure") from e
    finally:
        timer.cancel()


def _check_peer(uri: str, connection: Any) -> None:
    """As `check_place`, of the address that was connected to, before anything is sent: a name may
    have another one by then."""
    peer = connection.get_extra_info("server_addr")
    if peer and is_link_local(str(peer[0])):
        connection.close()
        raise TaskFailure("place-refused", f"{uri} {REFUSED}: name the host of a service")


def _end(streams: Sequence[Any]) -> None:
    """End the reads of another thread: a server may send headers byte by byte, for days."""
    for stream in streams:
        with suppress(OSError):  # one that TLS took over
            stream.get_extra_info("socket").shutdown(socket.SHUT_RDWR)


def _target(uri: str, answer: httpx2.Response) -> str:
    """Where a redirect leads. Nothing leads from https to http."""
    try:
        target = str(httpx2.URL(uri).join(answer.headers.get("location", "")))
    except httpx2.InvalidURL as e:
        raise TaskFailure("unreadable", f"{uri}: a redirect leads nowhere: {e}") from e
    if not target.startswith(("https://", uri.partition("//")[0])):
        message = f"{uri}: a redirect leads to {target.partition('?')[0]}, which is not encrypted"
        raise TaskFailure("place-refused", f"{message}: name the https:// address of the file")
    return target


def _check_status(uri: str, status: int) -> None:
    if status in (200, UNCHANGED, 412, *GONE):
        return
    if status in _REFUSED:
        message = f"{uri}: the server answers {status}: give `headers` with what it asks for"
        raise TaskFailure("permission-denied", message)
    is_passing = status == 429 or status >= 500
    message = f"{uri}: the server answers {status}"
    if is_passing:
        raise TaskFailure("unreachable", message, "infrastructure")
    raise TaskFailure("unreadable", f"{message}: name an address that gives the file with 200")


def strong_etag(answer: httpx2.Response) -> str:
    """The etag, if it stands for bytes; else empty."""
    etag: str = answer.headers.get("etag", "")
    return etag if etag.startswith('"') else ""


def length_of(answer: httpx2.Response) -> int | None:
    text = answer.headers.get("content-length", "")
    return int(text) if text.isdecimal() and "transfer-encoding" not in answer.headers else None


def seconds_of(answer: httpx2.Response, header: str) -> int:
    """The time in a header, in seconds since 1970; 0 where there is none."""
    try:
        return round(parsedate_to_datetime(answer.headers.get(header, "")).timestamp())
    except (ValueError, OverflowError):
        return 0


def is_at_rest(answer: httpx2.Response) -> bool:
    """Whether the file was changed so long ago that a change after it has another time."""
    changed, now = seconds_of(answer, "last-modified"), seconds_of(answer, "date")
    return bool(changed) and now - changed >= REST_S


def chunks(answer: httpx2.Response, uri: str) -> Iterator[bytes]:
    """The bytes of the file, as they are stored. TaskFailure if they break off."""
    encoding = answer.headers.get("content-encoding", "identity")
    if encoding != "identity" and not uri.partition("?")[0].endswith(".gz"):
        message = f"{uri}: the server compresses the file by itself ({encoding[:20]})"
        raise TaskFailure("unreadable", f"{message}: have it give the file as it is")
    size = 0
    # As they arrive: who reads them looks at the clock at each
    for chunk in answer.iter_raw():
        size += len(chunk)
        yield chunk
    if length_of(answer) not in (None, size):
        raise TaskFailure("unreachable", f"{uri}: the answer breaks off", "infrastructure")


def http_chunks(job: ConnectorJob, uri: str, version: str) -> Iterator[bytes]:
    """The bytes of a file; with a version, of that one. Moved once they are others: behind the last
    chunk, where only a digest can say so."""
    etag = etag_of(version)
    digest, size = hashlib.sha256(), 0
    with opened(job, uri, {"If-Match": etag} if etag else {}) as answer:
        if answer.status_code != 200 or (etag and strong_etag(answer) != etag):
            raise Moved(uri)
        for chunk in chunks(answer, uri):
            digest.update(chunk)
            size += len(chunk)
            yield chunk
    now = version_by(etag, size, 0, StoreAccess()) if etag else f"sha256:{digest.hexdigest()}"
    if version and now != version:
        raise Moved(uri)

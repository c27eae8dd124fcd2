"""The server of Delta Sharing: answers requests of recipients in lines of JSON. Plain ASGI.

https://github.com/delta-io/delta-sharing/blob/main/PROTOCOL.md

A version is a generation. Files are given as URLs of the S3 view, which are signed for this
recipient, read that one file, and end after some minutes, or with the recipient.
"""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from typing import TypeVar

from anyio import CapacityLimiter, to_thread
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from controlplane import logs
from controlplane.core.model.json_values import JsonValue
from controlplane.core.model.shares import SharedTable, ShareRow
from controlplane.core.sharing import lines, sharing_requests
from controlplane.core.sharing.lines import Form, SharedFile, TableHead
from controlplane.core.sharing.sharing_requests import Capabilities, WantedSnapshot
from controlplane.operations.context import Context
from controlplane.operations.desired import recipients, s3_keys
from controlplane.operations.desired.recipients import Recipient
from controlplane.operations.inspect import audit
from controlplane.services.caller_limit import CallerLimit
from controlplane.services.caller_recognition import recognised
from controlplane.services.http_parts import HttpParts
from controlplane.services.s3.http import presigned
from controlplane.services.sharing import recipient_tables
from controlplane.services.sharing.http import sharing_refusals
from controlplane.services.sharing.http.sharing_recognition import PREFIX
from controlplane.services.sharing.http.sharing_refusals import SharingRefused
from controlplane.services.sharing.recipient_tables import TableVersion
from controlplane.services.sharing.version_files import VersionFile, VersionFiles
from dataplane.contract.schemas import Json

LINES = "application/x-ndjson; charset=utf-8"
CAPABILITIES = "delta-sharing-capabilities"
VERSION = "Delta-Table-Version"
URL_S = 900  # how long the URL of a file is good
PER_RECIPIENT = 32  # requests at a time
T = TypeVar("T")
log = logs.get("sharing")


class AnswerCut(Exception):
    """An answer cannot go on in its middle. The connection ends without its last chunk."""


@dataclass(frozen=True, slots=True)
class _SharingRequest:
    """One request of a recipient. `base`: the address of this service, as the recipient knows
    it."""

    recipient: Recipient
    base: str
    names: Sequence[str]  # in the path, below the prefix
    query: Mapping[str, str]
    body: bytes
    capabilities: Capabilities
    request_id: str


@dataclass(frozen=True, slots=True)
class _Lines:
    """An answer of many lines. The first ones are made already, so all refusals come before it."""

    first: bytes
    rest: Iterator[bytes]
    headers: Mapping[str, str]


class SharingApp:
    """Answers requests, so many of a recipient at a time."""

    def __init__(self, parts: HttpParts, per_recipient: int = PER_RECIPIENT) -> None:
        self._parts = parts
        self._tables = _Tables(parts)
        self._caller_limits = CallerLimit(per_recipient)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request, is_started, who, status = Request(scope, receive), False, "", 500
        try:
            recipient = await self._recipient(request)
            who = recipient.id
            with self._caller_limits.of(who) as turn:
                response = await self._response(request, recipient, turn)
                is_started, status = True, response.status_code
                await response(scope, receive, send)
        except sharing_refusals.EXPECTED as e:
            refusal = None if is_started else sharing_refusals.of(e)
            if refusal is None:
                raise
            status = refusal.status_code
            await refusal(scope, receive, send)
        finally:
            self._parts.counters.add("sharing_answers", str(status))
            log.info(
                "answered",
                recipient=who,
                method=request.method,
                path=request.url.path,
                status=status,
                request_id=scope["headgate.request_id"],
            )

    async def _recipient(self, request: Request) -> Recipient:
        find = partial(recipients.find, self._parts.store)
        recipient = await recognised(self._parts, request, find)
        if recipient is None:
            raise SharingRefused(
                401, "the token of a recipient is needed, and one that has not ended"
            )
        return recipient

    async def _response(
        self, request: Request, recipient: Recipient, turn: CapacityLimiter
    ) -> Response:
        names = request.scope["path"].removeprefix(PREFIX).split("/")[1:]
        if request.method not in (["POST"] if names[-1:] == ["query"] else ["GET", "HEAD"]):
            raise SharingRefused(405, f"{request.method} is not answered here")
        sharing_request = _SharingRequest(
            recipient,
            str(request.base_url).rstrip("/"),
            names,
            query=dict(request.query_params),
            body=await request.body(),
            capabilities=sharing_requests.capabilities_of(request.headers.get(CAPABILITIES, "")),
            request_id=str(request.scope["headgate.request_id"]),
        )
        answered = await self._in_turn(turn, lambda: self._tables.answer(sharing_request))
        if isinstance(answered, Response):
            return answered
        body = self._parts.token_watch.while_live(
            recipient.id, self._body(answered, turn), recipient.principal
        )
        return StreamingResponse(body, headers=answered.headers, media_type=LINES)

    async def _body(self, answered: _Lines, turn: CapacityLimiter) -> AsyncIterator[bytes]:
        """The next page is made when the client has taken the one before."""
        page: bytes | None = answered.first
        while page is not None:
            if page:
                yield page
            try:
                page = await self._in_turn(turn, lambda: next(answered.rest, None))
            except (
                sharing_refusals.EXPECTED
            ) as e:  # an OSError would be taken for a client that has left
                raise AnswerCut(str(e)) from e

    async def _in_turn(self, turn: CapacityLimiter, work: Callable[[], T]) -> T:
        async with turn:
            return await to_thread.run_sync(work, limiter=self._parts.threads.s3)


class _Tables:
    """The answers about tables, computed in a thread."""

    def __init__(self, parts: HttpParts) -> None:
        self._parts, self._store = parts, parts.store
        self._files = dict[str, VersionFiles]()  # by namespace

    def answer(self, sharing_request: _SharingRequest) -> Response | _Lines:
        match sharing_request.names:
            case ["shares"]:
                return _page(
                    sharing_request,
                    [
                        (granted.name, _share(granted))
                        for granted in sharing_request.recipient.shares
                    ],
                )
            case ["shares", share]:
                return JSONResponse(
                    {"share": _share(recipient_tables.share_of(sharing_request.recipient, share))}
                )
            case ["shares", share, "schemas"]:
                shared_tables = self._shared(sharing_request, share)
                names = sorted({table.schema for table in shared_tables})
                share_name = recipient_tables.share_of(sharing_request.recipient, share).name
                return _page(
                    sharing_request, [(name, {"name": name, "share": share_name}) for name in names]
                )
            case ["shares", share, "schemas", schema, "tables"]:
                return self._listing(
                    sharing_request, share, self._shared(sharing_request, share, schema)
                )
            case ["shares", share, "all-tables"]:
                return self._listing(sharing_request, share, self._shared(sharing_request, share))
            case ["shares", share, "schemas", schema, "tables", table, what]:
                return self._of_table(sharing_request, share, schema, table, what)
        raise SharingRefused(404, "the protocol has no such address")

    def _shared(
        self, sharing_request: _SharingRequest, share: str, schema: str | None = None
    ) -> list[SharedTable]:
        granted = recipient_tables.share_of(sharing_request.recipient, share)
        with self._store.read(sharing_request.recipient.namespace) as tx:
            return recipient_tables.tables_of(tx, granted, schema)

    def _listing(
        self, sharing_request: _SharingRequest, share: str, shared_tables: Iterable[SharedTable]
    ) -> Response:
        granted = recipient_tables.share_of(sharing_request.recipient, share)
        items = [
            (f"{shared.schema}.{shared.name}", _table(granted, shared)) for shared in shared_tables
        ]
        return _page(sharing_request, items)

    def _of_table(
        self, sharing_request: _SharingRequest, share: str, schema: str, name: str, what: str
    ) -> Response | _Lines:
        granted = recipient_tables.share_of(sharing_request.recipient, share)
        with self._store.read(sharing_request.recipient.namespace) as tx:
            table = recipient_tables.table_of(tx, granted, schema, name)
        match what:
            case "version":
                return self._version(sharing_request, table)
            case "metadata":
                return self._snapshot(
                    sharing_request,
                    table,
                    sharing_requests.head_of(sharing_request.query),
                    with_files=False,
                )
            case "query":
                return self._snapshot(
                    sharing_request,
                    table,
                    sharing_requests.snapshot_of(sharing_request.body),
                    with_files=True,
                )
            case "changes":
                return self._changes(sharing_request, table)
        raise SharingRefused(404, "the protocol has no such address")

    def _version(self, sharing_request: _SharingRequest, table: SharedTable) -> Response:
        with self._store.read(sharing_request.recipient.namespace) as tx:
            number = recipient_tables.version_since(
                tx, table, sharing_requests.starting_time_of(sharing_request.query)
            )
        return Response(headers={VERSION: str(number)})

    def _snapshot(
        self,
        sharing_request: _SharingRequest,
        table: SharedTable,
        snapshot_request: WantedSnapshot,
        *,
        with_files: bool,
    ) -> _Lines:
        with self._store.read(sharing_request.recipient.namespace) as tx:
            state = recipient_tables.snapshot(tx, table, snapshot_request)
        version = TableVersion(state, state.at)
        answer = _TableAnswer(self._parts, sharing_request, table, version, first=version)
        if not with_files:
            return answer.over(iter(()))
        self._note(sharing_request, table, {"version": version.number})
        return answer.over(self._files_of(sharing_request).of_version(version, snapshot_request))

    def _changes(self, sharing_request: _SharingRequest, table: SharedTable) -> _Lines:
        with self._store.read(sharing_request.recipient.namespace) as tx:
            span = recipient_tables.span(
                tx, table, sharing_requests.changes_of(sharing_request.query)
            )
        recipient_tables.check_columns(span)
        first, last = span.versions[0], span.versions[-1]
        answer = _TableAnswer(self._parts, sharing_request, table, last, first=first)
        self._note(sharing_request, table, {"from": first.number, "to": last.number})
        return answer.over(self._files_of(sharing_request).of_span(span))

    def _files_of(self, sharing_request: _SharingRequest) -> VersionFiles:
        namespace = sharing_request.recipient.namespace
        return self._files.setdefault(namespace, VersionFiles(self._store, namespace))

    def _note(
        self, sharing_request: _SharingRequest, table: SharedTable, what: Mapping[str, JsonValue]
    ) -> None:
        """Note the read in the audit before the first URL is sent."""
        ctx = Context(
            self._store,
            sharing_request.recipient.namespace,
            sharing_request.recipient.actor,
            sharing_request.request_id,
        )
        audit.note_read(
            ctx,
            "sharing",
            table.branch,
            table.dataset,
            {"table": f"{table.schema}.{table.name}", **what},
        )


class _TableAnswer:
    """The lines about one table: its protocol and metadata as of a version, then files. `first`:
    the version that the schema line carries, since clients make a log of an answer that begins
    there."""

    def __init__(
        self,
        parts: HttpParts,
        sharing_request: _SharingRequest,
        table: SharedTable,
        version: TableVersion,
        *,
        first: TableVersion,
    ) -> None:
        self._request, self._table, self._version, self._first = (
            sharing_request,
            table,
            version,
            first,
        )
        self._form: Form = sharing_request.capabilities.form_for(version.state.schema)
        self._secret = s3_keys.secret_key(
            parts.s3_secret, sharing_request.recipient.namespace, sharing_request.recipient.id
        )
        self._folder = f"{sharing_request.recipient.namespace}/{table.branch}/{table.dataset.replace('.', '/', 1)}"

    def over(self, pages: Iterator[Sequence[VersionFile]]) -> _Lines:
        pieces = (self._encoded(page) for page in pages)
        head = TableHead(
            recipient_tables.id_of(self._table),
            self._table.name,
            self._version.state.schema,
            version=self._first.number,
            has_changes=self._table.has_history,
        )
        first = [lines.protocol(self._form, head), lines.metadata(self._form, head)]
        headers = {VERSION: str(self._version.number), CAPABILITIES: f"responseformat={self._form}"}
        return _Lines(_joined(first) + next(pieces, b""), pieces, headers)

    def _encoded(self, page: Iterable[VersionFile]) -> bytes:
        now = time.time()
        return _joined(
            lines.file(self._form, version_file.kind, self._file(version_file, now))
            for version_file in page
        )

    def _file(self, version_file: VersionFile, now: float) -> SharedFile:
        return SharedFile(
            sha256(version_file.name.encode()).hexdigest()[:32],
            presigned.url(
                self._request.base,
                f"{self._folder}@{version_file.of}/{version_file.name}",
                self._request.recipient.id,
                secret=self._secret,
                now=now,
                expires_s=URL_S,
            ),
            version_file.entry,
            version=version_file.version.number,
            at=version_file.version.milliseconds,
            expires=int(now + URL_S) * 1000,
        )


def _joined(objects: Iterable[Json]) -> bytes:
    return b"".join(json.dumps(json_object).encode() + b"\n" for json_object in objects)


def _page(sharing_request: _SharingRequest, items: Sequence[tuple[str, Json]]) -> Response:
    """A page of items, which are in order of their names."""
    bounds = sharing_requests.page_of(sharing_request.query)
    behind = [(name, item) for name, item in items if not bounds.after or name > bounds.after]
    shown = behind[: bounds.limit]
    answer: Json = {"items": [item for _, item in shown]}
    if len(behind) > len(shown):
        answer["nextPageToken"] = (
            sharing_requests.token_of(shown[-1][0])
            if shown
            else sharing_request.query.get("pageToken", "")
        )
    return JSONResponse(answer)


def _share(share: ShareRow) -> Json:
    return {"name": share.name, "id": share.id}


def _table(share: ShareRow, table: SharedTable) -> Json:
    return {
        "name": table.name,
        "schema": table.schema,
        "share": share.name,
        "shareId": share.id,
        "id": recipient_tables.id_of(table),
    }

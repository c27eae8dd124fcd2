"""The catalogue: answers requests of readers by the protocol of Iceberg REST catalogues. Plain
ASGI, and read-only.

https://github.com/apache/iceberg/blob/main/open-api/rest-catalog-open-api.yaml

A reader comes with a token of the API, and reads what that token may read. With a table it gets a
key of the S3 view for it, which reads this one dataset and ends with the token.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from anyio import to_thread
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import Receive, Scope, Send

from controlplane import logs
from controlplane.core import scopes
from controlplane.core.model.access import Token
from controlplane.operations.context import Context
from controlplane.operations.desired import s3_keys, tokens, vended_keys
from controlplane.services.caller_limit import CallerLimit
from controlplane.services.caller_recognition import recognised
from controlplane.services.http_parts import HttpParts
from controlplane.services.iceberg import scan_plans
from controlplane.services.iceberg.http import iceberg_refusals
from controlplane.services.iceberg.http.iceberg_recognition import PREFIX
from controlplane.services.iceberg.http.iceberg_refusals import IcebergRefused
from controlplane.services.iceberg.iceberg_catalogue import WHOLE, IcebergCatalogue, LoadedTable
from controlplane.services.iceberg.scan_plans import ScanPlan
from controlplane.services.s3.http.s3_recognition import REGION
from controlplane.services.s3.key_scope import Reader
from controlplane.services.s3.s3_addresses import TableAddress
from dataplane.contract.schemas import Json

PER_TOKEN = 32  # requests at a time
KEY_S = 12 * 3600  # how long the key of a table is good
# Trino takes a key only with one. The S3 view checks the signature alone.
SESSION_TOKEN = "none"
PAGE = 1_000  # names
MAIN = "main"
_TABLE = "/v1/{prefix}/namespaces/{namespace}/tables/{table}"
ENDPOINTS = [
    "GET /v1/{prefix}/namespaces",
    "GET /v1/{prefix}/namespaces/{namespace}",
    "HEAD /v1/{prefix}/namespaces/{namespace}",
    "GET /v1/{prefix}/namespaces/{namespace}/tables",
    f"GET {_TABLE}",
    f"HEAD {_TABLE}",
    f"GET {_TABLE}/credentials",
    f"POST {_TABLE}/plan",
    f"POST {_TABLE}/tasks",
    f"POST {_TABLE}/metrics",
]
_POSTS = ("plan", "tasks", "metrics")
log = logs.get("iceberg")


@dataclass(frozen=True, slots=True)
class _CatalogueRequest:
    """`names`: in the path, below the version. `base`: the address of this service, as the reader
    knows it."""

    token: Token
    method: str
    base: str
    names: Sequence[str]
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes
    request_id: str

    @property
    def reader(self) -> Reader:
        return Reader(WHOLE, self.token.principal)


class IcebergApp:
    """Answers requests, so many of a token at a time."""

    def __init__(self, parts: HttpParts, per_token: int = PER_TOKEN) -> None:
        self._parts = parts
        self._answers = _Answers(parts)
        self._caller_limits = CallerLimit(per_token)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request, who = Request(scope, receive), ""
        try:
            token = await self._token(request)
            who = token.id
            with self._caller_limits.of(who) as turn:
                body = await request.body()
                async with turn:
                    response = await to_thread.run_sync(
                        self._answers.answer,
                        _catalogue_request(request, token, body),
                        limiter=self._parts.threads.s3,
                    )
        except iceberg_refusals.EXPECTED as e:
            refusal = iceberg_refusals.of(e)
            if refusal is None:
                raise
            response = refusal
        status = response.status_code
        self._parts.counters.add("iceberg_answers", str(status))
        log.info(
            "answered",
            token=who,
            method=request.method,
            path=request.url.path,
            status=status,
            request_id=scope["headgate.request_id"],
        )
        await response(scope, receive, send)

    async def _token(self, request: Request) -> Token:
        find = partial(tokens.authenticate, self._parts.store)
        token = await recognised(self._parts, request, find)
        if token is None:
            raise IcebergRefused(
                401, "a valid token is needed: set the catalogue's `token` to one that starts hg_"
            )
        return token


def _catalogue_request(request: Request, token: Token, body: bytes) -> _CatalogueRequest:
    names = request.scope["path"].removeprefix(PREFIX).split("/")[1:]
    if names[:1] != ["v1"]:
        raise IcebergRefused(404, f"the catalogue is at {PREFIX}/v1")
    return _CatalogueRequest(
        token,
        request.method,
        str(request.base_url).rstrip("/"),
        names=names[1:],
        query=dict(request.query_params),
        headers=request.headers,
        body=body,
        request_id=str(request.scope["headgate.request_id"]),
    )


class _Answers:
    """The answers, computed in a thread."""

    def __init__(self, parts: HttpParts) -> None:
        self._parts, self._store = parts, parts.store
        self._catalogues = dict[str, IcebergCatalogue]()  # by namespace

    def answer(self, request: _CatalogueRequest) -> Response:
        _check_method(request)
        if importlib.util.find_spec("fastavro") is None:
            words = "this installation lacks the extra: pip install 'headgate[iceberg]'"
            raise IcebergRefused(501, words)
        match request.names:
            case ["config"]:
                return self._config(request)
            case [ref, "namespaces"]:
                return self._namespaces(request, ref)
            case [ref, "namespaces", dataflow]:
                self._catalogue(request).datasets(request.reader, ref, dataflow)
                return _json(request, {"namespace": [dataflow], "properties": {}})
            case [ref, "namespaces", dataflow, "tables"]:
                return self._tables(request, ref, dataflow)
            case [ref, "namespaces", dataflow, "tables", dataset]:
                return self._table(request, ref, dataflow, dataset)
            case [ref, "namespaces", dataflow, "tables", dataset, what]:
                return self._of_table(request, (ref, dataflow, dataset), what)
        raise IcebergRefused(404, "the catalogue has no such address")

    def _catalogue(self, request: _CatalogueRequest) -> IcebergCatalogue:
        namespace = request.token.namespace
        return self._catalogues.setdefault(namespace, IcebergCatalogue(self._store, namespace))

    def _config(self, request: _CatalogueRequest) -> Response:
        warehouse = request.query.get("warehouse") or MAIN
        self._catalogue(request).check_warehouse(request.reader, warehouse)
        config = {
            "defaults": {},
            "overrides": {"prefix": warehouse},
            "endpoints": ENDPOINTS,
        }
        return _json(request, config)

    def _namespaces(self, request: _CatalogueRequest, ref: str) -> Response:
        dataflows = self._catalogue(request).dataflows(request.reader, ref)
        if parent := request.query.get("parent"):
            if parent not in dataflows:
                raise IcebergRefused(
                    404, f"there is no dataflow {parent} in {ref}", iceberg_refusals.NO_NAMESPACE
                )
            dataflows = []
        shown, following = _page(request, dataflows)
        return _json(request, {"namespaces": [[name] for name in shown], **following})

    def _tables(self, request: _CatalogueRequest, ref: str, dataflow: str) -> Response:
        datasets = self._catalogue(request).datasets(request.reader, ref, dataflow)
        shown, following = _page(request, datasets)
        names = [{"namespace": [dataflow], "name": name} for name in shown]
        return _json(request, {"identifiers": names, **following})

    def _table(self, request: _CatalogueRequest, ref: str, dataflow: str, dataset: str) -> Response:
        table = self._catalogue(request).table(request.reader, ref, dataflow, dataset)
        metadata = table.metadata
        if request.query.get("snapshots") == "refs":
            metadata = {**metadata, "snapshots": metadata["snapshots"][-1:]}
        credentials = self._credentials(request, table.address)
        answer: Json = {
            "metadata-location": table.location,
            "metadata": metadata,
            "config": _place(request),
        }
        if "vended-credentials" in request.headers.get("x-iceberg-access-delegation", ""):
            answer["config"] = {**credentials, **answer["config"]}
            answer["storage-credentials"] = _stored(table, credentials, request)
        return _json(request, answer)

    def _of_table(
        self, request: _CatalogueRequest, names: tuple[str, str, str], what: str
    ) -> Response:
        catalogue = self._catalogue(request)
        match what:
            case "credentials":
                table = catalogue.table(request.reader, *names)
                credentials = self._credentials(request, table.address)
                stored = _stored(table, credentials, request)
                return _json(request, {"storage-credentials": stored})
            case "plan":
                page = self._page_of(request, catalogue, names, scan_plans.plan_of(request.body))
                return _json(request, {"status": "completed", **page})
            case "tasks":
                plan_request, root = scan_plans.task_of(request.body)
                return _json(request, self._page_of(request, catalogue, names, plan_request, root))
            case "metrics":
                return Response(status_code=204)  # of a reader's scan: dropped
        raise IcebergRefused(404, "the catalogue has no such address")

    def _page_of(
        self,
        request: _CatalogueRequest,
        catalogue: IcebergCatalogue,
        names: tuple[str, str, str],
        plan_request: scan_plans.PlanRequest,
        root: str = "",
    ) -> Json:
        token = request.token
        ctx = Context(self._store, token.namespace, token.name, request.request_id)
        with self._store.read(token.namespace) as tx:
            address, state = catalogue.state(tx, request.reader, *names)
            return ScanPlan(ctx, tx, catalogue, address, state).page(plan_request, root)

    def _credentials(self, request: _CatalogueRequest, address: TableAddress) -> Mapping[str, str]:
        """A key of the S3 view that reads this dataset, in this branch, for some hours."""
        scope = scopes.Scope(address.ref.branch, address.dataflow, address.dataset)
        with self._store.read(request.token.namespace) as tx:
            expires = tx.now() + KEY_S
        key = vended_keys.access_key(request.token, scope, expires)
        secret = s3_keys.secret_key(self._parts.s3_secret, request.token.namespace, key)
        return {
            "s3.access-key-id": key,
            "s3.secret-access-key": secret,
            "s3.session-token": SESSION_TOKEN,
        }


def _check_method(request: _CatalogueRequest) -> None:
    posts = request.names[-1:] and request.names[-1] in _POSTS and len(request.names) == 6
    if request.method not in (("POST",) if posts else ("GET", "HEAD")):
        raise IcebergRefused(
            405, "this catalogue is read-only: datasets are made by their dataflows"
        )


def _place(request: _CatalogueRequest) -> dict[str, str]:
    """Where the S3 view is."""
    return {
        "s3.endpoint": request.base,
        "s3.region": REGION,
        "client.region": REGION,
        "s3.path-style-access": "true",
    }


def _stored(
    table: LoadedTable, credentials: Mapping[str, str], request: _CatalogueRequest
) -> list[Json]:
    config = {**credentials, **_place(request)}
    return [{"prefix": f"{table.metadata['location']}/", "config": config}]


def _page(request: _CatalogueRequest, names: Sequence[str]) -> tuple[Sequence[str], Json]:
    """All names, or a page of them where the query has a token. A token is the last name of the page."""
    if "pageToken" not in request.query:
        return names, {}
    text, after = request.query.get("pageSize", ""), request.query["pageToken"]
    limit = min(int(text), PAGE) if text.isdecimal() and len(text) < 6 and int(text) else PAGE
    behind = [name for name in names if name > after]
    shown = behind[:limit]
    return shown, {"next-page-token": shown[-1] if len(behind) > limit else None}


def _json(request: _CatalogueRequest, answer: Json) -> Response:
    return Response(status_code=204) if request.method == "HEAD" else JSONResponse(answer)

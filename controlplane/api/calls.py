"""The common parts of routes: the context of an operation, answers, entity tags, names in paths,
idempotency."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Generic, TypeAlias, TypeVar, cast

from fastapi import Depends, Header, Path, Request, Response
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict

from controlplane.api.authentication import caller, require, services
from controlplane.api.problem_json import RequestRefused, of_error, request_id
from controlplane.api.services import Services
from controlplane.core.errors import HeadgateError, IdempotencyConflict, NotFound
from controlplane.core.model import access
from controlplane.core.model.branches import MAIN
from controlplane.core.model.dataset_names import DATAFLOW_NAME, DATASET_NAME
from controlplane.core.rights import Permission, may
from controlplane.operations.context import Context
from controlplane.operations.desired import branches
from dataplane.contract.encoding import digest

DATAFLOW = re.compile(DATAFLOW_NAME)
DATASET = re.compile(DATASET_NAME)
NO_DATAFLOW = "there is no dataflow of this name"
NO_DATASET = "there is no dataset of this name; write DATAFLOW.DATASET, such as shop.totals"
NO_ATTEMPT = "there is no attempt of this name"
NO_TARGET = "there is no dataflow or dataset of this name"
ATTEMPT = re.compile(r"[0-9a-f]{32}")
ETAG_TEXT = r'^"[0-9]{1,9}"$'
ETAG = re.compile(r'"(\d{1,9})"')


T = TypeVar("T")


class ClosedBody(BaseModel):
    """The body of a request that no operation takes as it is. No other fields, and no value is
    converted."""

    model_config = ConfigDict(extra="forbid", strict=True)


class JsonAnswer(JSONResponse, Generic[T]):
    """A response whose body is the JSON of a T. Routes declare their answer by it, and
    `description` adds it to OpenAPI."""


@dataclass(frozen=True, slots=True)
class Call:
    """One authenticated request. `repeat` is its Idempotency-Key and the digest of all that it asks
    for."""

    services: Services
    context: Context
    request: Request
    repeat: tuple[str, bytes] | None

    def need(self, permission: Permission) -> None:
        """Refuse the request without this permission: for parts of a route that run only on
        request."""
        require(self.services, self.context.principal, permission)

    def has(
        self, *, dataflow: str | None = None, dataset: str | None = None, branch: str | None = None
    ) -> bool:
        """Whether the principal has the route's permission for the named things."""
        needed = cast("Permission", self.request.scope["headgate.need"])
        return may(
            self.context.principal, needed, dataflow=dataflow, dataset=dataset, branch=branch
        )

    def target(self, text: str | None) -> str | None:
        """A dataflow or a dataset that a request names; None for everything, which needs a token
        that has it all."""
        name = target_of(text)
        if name is None:
            if self.context.principal.within:
                raise RequestRefused(
                    "forbidden", "this token is narrowed to some names: name a dataflow or dataset"
                )
        elif not (self.has(dataset=name) if "." in name else self.has(dataflow=name)):
            raise NotFound(NO_TARGET)
        return name

    def flows(self, names: Sequence[str] | None) -> list[str] | None:
        """Dataflows that a query names, or None for all."""
        flow_names = flows_of(names)
        for name in flow_names or ():
            if not self.has(dataflow=name):
                raise NotFound(NO_DATAFLOW)
        return flow_names

    def once(self, work: Callable[[], JsonAnswer[T]]) -> JsonAnswer[T]:
        """Do the work, or give the answer that the same request with the same Idempotency-Key got
        before."""
        if self.repeat is None:
            return work()
        key, body = self.repeat
        with self.services.turn(key):
            response = self._earlier(key, body) or self._remember(key, body, self._answer(work))
        return cast("JsonAnswer[T]", response)  # what the same work answered before

    def _answer(self, work: Callable[[], Response]) -> Response:
        try:
            return work()
        except HeadgateError as error:
            return of_error(error, self.request)

    def _earlier(self, key: str, body: bytes) -> Response | None:
        with self.context.read() as tx:
            answer = tx.audit.answer(key)
        if answer is None:
            return None
        if answer.body != body:
            raise IdempotencyConflict(
                "this Idempotency-Key came before with another request; use a new one"
            )
        record = json.loads(answer.response)
        return Response(record["content"], answer.status, record["headers"])

    def _remember(self, key: str, body: bytes, response: Response) -> Response:
        headers = {k: v for k, v in response.headers.items() if k in ("content-type", "etag")}
        record = json.dumps({"content": bytes(response.body).decode(), "headers": headers})
        try:
            with self.context.begin() as tx:
                tx.audit.put_answer(
                    access.StoredAnswer(
                        key=key, body=body, status=response.status_code, response=record
                    )
                )
        except IdempotencyConflict:  # another replica was faster
            return self._earlier(key, body) or response
        return response


async def call(
    request: Request,
    idempotency_key: Annotated[str | None, Header(max_length=200, pattern=r"^[!-~]+$")] = None,
) -> Call:
    """The one coroutine among dependencies: only a coroutine can read the body that the key stands
    for."""
    app_services, token = services(request), caller(request)
    context = app_services.context(token, request_id(request))
    if idempotency_key is None or request.method != "POST":
        return Call(app_services, context, request, None)
    request_digest = digest(
        "request/1",
        path=request.url.path,
        query=request.url.query,
        type=request.headers.get("content-type", ""),
        match=request.headers.get("if-match", ""),
        body=await request.body(),
    )
    return Call(app_services, context, request, (f"{token.id}:{idempotency_key}", request_digest))


def answer(value: T, status: int = 200, headers: Mapping[str, str] | None = None) -> JsonAnswer[T]:
    return JsonAnswer(value, status, headers)


def is_head(request: Request) -> bool:
    """Whether the request is for headers only: nothing has to be read for a body."""
    return bool(request.scope.get("headgate.head"))


def etag(revision: int) -> dict[str, str]:
    return {"ETag": f'"{revision}"'}


def expected(
    if_match: Annotated[
        str | None, Header(max_length=100, json_schema_extra={"pattern": ETAG_TEXT})
    ] = None,
    if_none_match: Annotated[
        str | None, Header(max_length=100, json_schema_extra={"pattern": r"^\*$"})
    ] = None,
) -> int | None:
    """The revision that a change is based on: 0 for none yet (`If-None-Match: *`), None where
    neither header is given."""
    if if_none_match is not None:
        if if_none_match.strip() == "*" and if_match is None:
            return 0
        raise RequestRefused(
            "invalid-request", "If-None-Match can only be *, and not beside If-Match"
        )
    if if_match is None:
        return None
    match = ETAG.fullmatch(if_match.strip())
    if match is None:
        raise RequestRefused(
            "invalid-request", 'If-Match must be one ETag of a dataflow, such as "3"'
        )
    return int(match[1])


def _named(pattern: re.Pattern[str], refusal: str, name: str) -> str:
    if not pattern.fullmatch(name):
        raise NotFound(refusal)
    return name


def branch_of(call: Call, name: str) -> str:
    """A branch that a path, a query or a body names. One that must not be seen is not there."""
    if not call.has(branch=name):
        raise branches.no_branch(name)
    if name != MAIN:
        branches.branch_named(call.context, name)
    return name


def _attempt(attempt: Annotated[str, Path()]) -> str:
    return _named(ATTEMPT, NO_ATTEMPT, attempt)


def flows_of(names: Sequence[str] | None) -> list[str] | None:
    """Dataflows that a query names, or None for all."""
    return [_named(DATAFLOW, NO_DATAFLOW, name) for name in names] if names else None


def target_of(text: str | None) -> str | None:
    """A dataflow, a dataset, or None for everything."""
    if text is None or DATAFLOW.fullmatch(text) or DATASET.fullmatch(text):
        return text
    raise NotFound(NO_TARGET)


Called: TypeAlias = Annotated[Call, Depends(call)]


def _branch(call: Called, branch: Annotated[str, Path()]) -> str:
    return branch_of(call, branch)


def _dataflow(call: Called, dataflow: Annotated[str, Path()]) -> str:
    """The name of a dataflow. A hidden one gives the same answer as an invalid name."""
    if not call.has(dataflow=_named(DATAFLOW, NO_DATAFLOW, dataflow)):
        raise NotFound(NO_DATAFLOW)
    return dataflow


def dataset_of(call: Call, name: str) -> str:
    """A dataset that a path or a body names. As for dataflows."""
    if not call.has(dataset=_named(DATASET, NO_DATASET, name)):
        raise NotFound(NO_DATASET)
    return name


def _dataset(call: Called, dataset: Annotated[str, Path()]) -> str:
    return dataset_of(call, dataset)


async def _overriding(call: Called, override: bool = False) -> Call:
    """`override`: change a protected branch all the same, which needs `admin`."""
    if not override:
        return call
    call.need("admin")
    return replace(call, context=replace(call.context, override=True))


Expected: TypeAlias = Annotated[int | None, Depends(expected)]
Branch: TypeAlias = Annotated[str, Depends(_branch)]
Dataflow: TypeAlias = Annotated[str, Depends(_dataflow)]
Dataset: TypeAlias = Annotated[str, Depends(_dataset)]
Overriding: TypeAlias = Annotated[Call, Depends(_overriding)]
"""For routes that protected branches refuse."""
Attempt: TypeAlias = Annotated[str, Depends(_attempt)]

"""Storing, checking, showing and deleting dataflows, and the plan."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from contextlib import nullcontext
from typing import Annotated, TypeAlias

from anyio import to_thread
from fastapi import Depends, Query, Request
from fastapi.exceptions import RequestValidationError
from pydantic import Field, ValidationError

from controlplane.api import auth
from controlplane.api.calls import (
    Branch,
    Call,
    Called,
    ClosedBody,
    Dataflow,
    Expected,
    JsonAnswer,
    Overriding,
    answer,
    branch_of,
    etag,
)
from controlplane.api.looks import (
    LISTED_S,
    ListingOutcome,
    Timeout,
    analysed,
    look_for_plan,
    wait_until,
    waiting,
)
from controlplane.api.problem_json import JSON_TYPE, RequestRefused, wrong_type
from controlplane.core import rest
from controlplane.core.blueprint import parse
from controlplane.core.model.answers import (
    ApplyAnswer,
    ConnectionEntry,
    ConnectionFound,
    ConnectionsAnswer,
    DataflowAnswer,
    DataflowsAnswer,
    DeleteAnswer,
    PlanAnswer,
    PlanBasis,
    ValidateAnswer,
)
from controlplane.operations.desired import blueprints, connection_checks
from controlplane.operations.inspect import json_views, overview

YAML_TYPES = frozenset({"application/yaml", "application/x-yaml", "text/yaml", "text/x-yaml"})
TYPES = f"{JSON_TYPE} for a set of blueprints, or application/yaml for one"
PAGE = 100
CONNECT_S = 60.0  # how long a worker may take to try all places
UNANSWERED: ConnectionFound = {
    "connector": None,
    "place": None,
    "error": {
        "kind": "infrastructure",
        "condition": "no-worker",
        "message": "no worker has answered in time",
    },
}

router = auth.router("edit", "all")


Name = Annotated[str, Field(max_length=4096, pattern=r"^[^\x00-\x1f\x7f]*$")]


class Document(ClosedBody):
    """One blueprint: `name` is what problems call it, `files` the texts that it names by relative
    path."""

    name: Name = "blueprint.yaml"
    text: str
    files: dict[Name, str] = Field(default={})


class Documents(ClosedBody):
    blueprints: list[Document] = Field(min_length=1, max_length=1000)


class Planned(ClosedBody):
    """A plan to be carried out: its `basis`, and the blueprints that it was made of (none if they
    were stored)."""

    blueprints: list[Document] = Field(default=[], max_length=1000)
    basis: PlanBasis


BODY = {
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {
                "schema": Documents.model_json_schema(ref_template="#/components/schemas/{model}")
            },
            "application/yaml": {"schema": {"description": "One blueprint."}},
        },
    }
}


async def _sources(request: Request) -> tuple[blueprints.SentBlueprint, ...]:
    """Blueprints out of a JSON set or of one bare YAML document. A coroutine, because it reads the
    body itself."""
    raw = await request.body()
    content_type = request.headers.get("content-type", "")
    kind = content_type.partition(";")[0].strip().lower()
    if kind in YAML_TYPES:
        return (blueprints.SentBlueprint("blueprint.yaml", _text(raw), {}),)
    if kind not in ("", JSON_TYPE):
        raise RequestRefused("invalid-request", wrong_type(content_type, TYPES))
    try:
        documents = Documents.model_validate_json(raw).blueprints
    except ValidationError as error:
        if not content_type:
            raise RequestRefused("invalid-request", wrong_type(content_type, TYPES)) from None
        raise RequestValidationError(error.errors(include_input=False, include_url=False)) from None
    return _as_sources(documents)


def _as_sources(documents: Iterable[Document]) -> tuple[blueprints.SentBlueprint, ...]:
    return tuple(blueprints.SentBlueprint(d.name, d.text, d.files) for d in documents)


def _text(raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        parse(raw, file="blueprint.yaml", files={})  # knows the place of the bad byte, and raises
        raise


Sources = Annotated[tuple[blueprints.SentBlueprint, ...], Depends(_sources)]


@router.answers(rest.APPLY, openapi_extra=BODY)
async def apply(
    call: Overriding,
    sources: Sources,
    expected: Expected,
    branch: Annotated[str, Query()] = "main",
    dry_run: bool = False,
    refresh: bool = False,
    analyse: bool = False,
    modes: bool = False,
    timeout_s: Timeout = LISTED_S,
) -> JsonAnswer[ApplyAnswer]:
    """Store a set of blueprints, all or none; answers the new revisions and the plan. `dry_run`
    stores no dataflow. With `refresh`, which goes with `dry_run`, workers list the sources first,
    as for `GET .../plan`. With `analyse`, which does as well, Spark gives the columns of edited
    transforms; those still missing after `timeout_s` say so in `schema_from` and
    `schema_unknown`. With `modes`, the plan of a `dry_run` has its `modes`."""
    if expected is not None and len(sources) > 1:
        raise RequestRefused(
            "invalid-request", "If-Match and If-None-Match go with one blueprint, not with several"
        )
    if refresh and not dry_run:
        raise RequestRefused(
            "invalid-request", "refresh goes with dry_run=true: what is stored is listed anyway"
        )
    if analyse and not dry_run:
        raise RequestRefused(
            "invalid-request", "analyse goes with dry_run=true: what is stored is analysed anyway"
        )

    def work() -> JsonAnswer[ApplyAnswer]:
        branch_of(call, branch)
        deadline = time.monotonic() + timeout_s
        listings_seen = ListingOutcome()
        if refresh:
            listings_seen = look_for_plan(
                call,
                branch,
                blueprints.preview(call.context, branch, sources).own_sources,
                timeout_s,
            )
        analysis = (
            analysed(call, branch, sources, deadline, timeout_s, listings_seen.plan)
            if analyse
            else nullcontext("")
        )
        with analysis as unanswered:
            result = blueprints.apply(
                call.context,
                branch,
                sources,
                dry_run=dry_run,
                expected=expected,
                unseen=listings_seen.unseen,
                unanswered=unanswered,
                looked=listings_seen.plan,
                modes=modes,
            )
        return answer(result, headers=_tag(result["revisions"]))

    return await waiting(call, lambda: call.once(work), may_wait=refresh or analyse)


def _tag(revisions: Mapping[str, int]) -> Mapping[str, str]:
    return etag(*revisions.values()) if len(revisions) == 1 else {}


@router.answers(rest.VALIDATE, openapi_extra=BODY)
def validate(sources: Sources) -> JsonAnswer[ValidateAnswer]:
    """All problems of a set of blueprints. Nothing is stored, and stored blueprints are not
    read."""
    validated = blueprints.validate(sources)
    errors, notices = (
        [json_views.problem(p) for p in validated.problems],
        [json_views.problem(n) for n in validated.notices],
    )
    return answer({"valid": not errors, "errors": errors, "notices": notices})


@router.answers(rest.CONNECTIONS, openapi_extra=BODY, dependencies=auth.needs("admin"))
async def connections(call: Called, sources: Sources) -> JsonAnswer[ConnectionsAnswer]:
    """Let a worker try every place that these blueprints read or write; nothing is stored. A place
    that no worker has answered in time has an error `no-worker`."""
    return await to_thread.run_sync(
        _connections, call, sources, limiter=call.services.threads.connections
    )


def _connections(
    call: Call, sources: tuple[blueprints.SentBlueprint, ...]
) -> JsonAnswer[ConnectionsAnswer]:
    context = call.context
    keys = connection_checks.ask(context, sources)
    wait_until(call, CONNECT_S, lambda: len(connection_checks.answers(context, keys)) == len(keys))
    answers = connection_checks.answers(context, keys)
    connection_checks.forget(context, keys)
    items: list[ConnectionEntry] = [
        {"component": name, **answers.get(name, UNANSWERED)} for name in keys
    ]
    return answer({"connected": not any(i["error"] for i in items), "items": items})


@router.answers(rest.DATAFLOWS, dependencies=auth.needs("view", "all"))
def dataflows(call: Called, branch: Branch) -> JsonAnswer[DataflowsAnswer]:
    """Declared dataflows and their state."""
    return answer({"items": blueprints.dataflows(call.context, branch), "next": None})


@router.answers(rest.DATAFLOW, dependencies=auth.needs("view", "all"))
def dataflow(call: Called, branch: Branch, dataflow: Dataflow) -> JsonAnswer[DataflowAnswer]:
    """One dataflow with its text; its revision is the ETag."""
    entry_of_flow = blueprints.dataflow(call.context, branch, dataflow)
    return answer(entry_of_flow, headers=etag(entry_of_flow["revision"]))


@router.answers(rest.DELETE_DATAFLOW)
def delete(
    call: Overriding, branch: Branch, dataflow: Dataflow, expected: Expected
) -> JsonAnswer[DeleteAnswer]:
    """End a dataflow: its demand and pointers go, data that others refer to stays."""
    return answer(blueprints.delete(call.context, branch, dataflow, expected=expected))


Looked: TypeAlias = Annotated[str, Query(pattern=r"^([0-9a-f]{32})?$")]


@router.answers(rest.PLAN, dependencies=auth.needs("view", "all"))
async def plan(
    call: Called,
    branch: Branch,
    dataflow: Annotated[list[str] | None, Query(max_length=1000)] = None,
    refresh: bool = False,
    looked: Looked = "",
    modes: bool = False,
    timeout_s: Timeout = LISTED_S,
    after: Annotated[int, Query(ge=0, le=10**9)] = 0,
    limit: Annotated[int, Query(ge=1, le=1000)] = PAGE,
) -> JsonAnswer[PlanAnswer]:
    """What would run now, with causes. `next` is the `after` of the next page. With `refresh`,
    which needs `operate`, workers list the sources first, for at most `timeout_s`; what they find
    is stored for this plan alone, for an hour, and nothing is computed from it before the plan is
    applied. Further pages of that plan have its `looked` (see `basis`). `sources` has the time at
    which each was listed, and what it has that its dataset has not. With `modes`, the first page
    has how inputs are kept, and what late partitions cost."""

    def work() -> JsonAnswer[PlanAnswer]:
        flows = call.flows(dataflow)
        listings_seen = ListingOutcome(looked)
        if refresh:
            call.need("operate")
            listings_seen = look_for_plan(
                call, branch, overview.sources(call.context, branch, flows), timeout_s
            )
        full_plan = overview.plan(
            call.context,
            branch,
            flows,
            listings_seen.unseen,
            listings_seen.plan,
            modes=modes and not after,
        )
        return answer(_page(full_plan, after, limit))

    return await waiting(call, work, may_wait=refresh)


@router.answers(rest.CARRY_OUT)
def carry_out(call: Overriding, branch: Branch, planned: Planned) -> JsonAnswer[ApplyAnswer]:
    """Store the blueprints of a plan, if all that it rests on is as it was when the plan was made;
    else `plan-moved` says what moved, and nothing is stored."""
    sources = _as_sources(planned.blueprints)
    return call.once(
        lambda: answer(blueprints.carry_out(call.context, branch, sources, planned.basis))
    )


def _page(full_plan: PlanAnswer, after: int, limit: int) -> PlanAnswer:
    items = full_plan["items"][after : after + limit]
    end = after + len(items)
    following = str(end) if end < len(full_plan["items"]) else None
    page: PlanAnswer = {
        **full_plan,
        "items": items,
        "sources": [] if after else full_plan["sources"],
        "next": following,
    }
    if after:
        page.pop("basis", None)
        page.pop("drivers", None)
    return page

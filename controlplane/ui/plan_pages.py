"""The page of plans: work due now, the effects of a draft, and Apply, which stores only the plan as
shown."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Mapping
from typing import Any

from anyio import to_thread
from pydantic import TypeAdapter, ValidationError
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from typing_extensions import TypedDict

from controlplane.core.errors import HeadgateError, InvalidBlueprint, PlanMoved
from controlplane.core.model.answers import PlanAnswer
from controlplane.core.model.answers.plans import PlanBasis
from controlplane.core.model.answers.problems import ProblemDetail
from controlplane.core.model.branches import MAIN
from controlplane.operations.desired import blueprints, branches
from controlplane.operations.inspect import hidden, json_views, overview, plan_reach
from controlplane.operations.inspect.hidden import visible
from controlplane.operations.inspect.plan_reach import PlanReach
from controlplane.ui import draw, plan_rows, views
from controlplane.ui.actions import BadForm, Fields, create_branch, done, once, proven
from controlplane.ui.forms import fields_of
from controlplane.ui.names import FLOW
from controlplane.ui.page import CURL, Page, both, no_such, wants_json
from controlplane.ui.page_request import PageRequest
from controlplane.ui.plan_rows import PlanRow

DRAFT_BYTES = 4_500_000  # below what the API takes at all
ITEMS = 100
OBSTACLES = 50
BASIS: TypeAdapter[PlanBasis] = TypeAdapter(PlanBasis)
MOVED = 409
LONGEST_SHOWN = 4_000  # characters of a command
LONGEST_NAME = 500  # characters of a branch's name, which has fewer


class PlanPage(TypedDict):
    """`text`: the draft, or the stored text of the `flow`; empty for a new dataflow. `plan`: its
    first items; None where the draft has `problems`, or was `refused`. `rows`: the same for each
    dataset, the first of those in `work`; `reach`: who notices it. `line`: where the editor opens
    the text. `save_as`: the branch that was named for the draft."""

    dataflows: list[str]
    flow: str
    file: str
    text: str
    is_draft: bool
    plan: PlanAnswer | None
    rows: list[PlanRow]
    work: list[str]
    reach: PlanReach | None
    line: int
    problems: list[ProblemDetail]
    refused: str | None
    save_as: str


def _plan(page_request: PageRequest) -> PlanPage:
    page = _empty(page_request, _flow_named(page_request.query("flow")))
    flows = [page["flow"]] if page["flow"] else None
    answer = overview.plan(page_request.context, page_request.branch, flows, modes=True)
    reach = plan_reach.of_stored(page_request.context, page_request.branch, answer)
    return _with_plan(page_request, page, answer, reach)


def _with_plan(
    page_request: PageRequest, page: PlanPage, plan: PlanAnswer, reach: PlanReach
) -> PlanPage:
    """In words that the token may see."""
    plan, reach = visible(page_request.context, plan), visible(page_request.context, reach)
    reach["lines"] = _own_lines(page["flow"], plan, reach["lines"])
    rows = plan_rows.of_plan(plan)
    return {
        **page,
        "plan": _cut(plan),
        "rows": rows[:ITEMS],
        "work": [row["dataset"] for row in rows],
        "reach": reach,
        "line": _line_in_question(plan, reach["lines"]),
    }


def _own_lines(flow: str, plan: PlanAnswer, lines: Mapping[str, int]) -> dict[str, int]:
    """Lines of the text that is shown. Those of other dataflows are lines of other texts."""
    edited = (change["component"].partition(".")[0] for change in plan["changes"])
    own = flow or next(edited, "")
    return {name: line for name, line in lines.items() if name.partition(".")[0] == own}


def _line_in_question(plan: PlanAnswer, lines: Mapping[str, int]) -> int:
    """The line of the first component that is edited, else that failed, else that has work."""
    names = [change["component"] for change in plan["changes"]]
    names += plan_rows.failed_names(plan)
    names += [work["dataset"] for work in plan["items"]]
    return next((lines[name] for name in names if name in lines), 1)


def _flow_named(name: str) -> str:
    if name and not FLOW.fullmatch(name):
        raise no_such("dataflow")
    return name


def _empty(page_request: PageRequest, flow: str) -> PlanPage:
    """With the stored text. Raises NotFound."""
    if flow and not page_request.may("view", flow):
        raise no_such("dataflow")
    dataflow = (
        visible(
            page_request.context,
            blueprints.dataflow(page_request.context, page_request.branch, flow),
        )
        if flow
        else None
    )
    every = (
        entry_of_flow["name"]
        for entry_of_flow in blueprints.dataflows(page_request.context, page_request.branch)
    )
    return {
        "dataflows": [name for name in every if page_request.may("view", name)],
        "flow": flow,
        "file": dataflow["file"] if dataflow else "blueprint.yaml",
        "text": dataflow["text"] if dataflow else "",
        "is_draft": False,
        "plan": None,
        "rows": [],
        "work": [],
        "reach": None,
        "line": 1,
        "problems": [],
        "refused": None,
        "save_as": "",
    }


def _cut(plan: PlanAnswer) -> PlanAnswer:
    return {
        **plan,
        "items": plan["items"][:ITEMS],
        "next": str(ITEMS) if len(plan["items"]) > ITEMS else None,
    }


def _anchors(drawing: draw.Drawing | None, page: PlanPage) -> dict[str, int]:
    """Lines of the text by the boxes that lead there. Boxes with a row lead to it."""
    if drawing is None or page["reach"] is None:
        return {}
    lines, with_row = page["reach"]["lines"], {row["dataset"] for row in page["rows"]}
    names = [drawn.box.name for drawn in drawing.boxes]
    return {name: lines[name] for name in names if name in lines and name not in with_row}


def _shown(page_request: PageRequest, page: PlanPage) -> Mapping[str, Any]:
    """The commands for the same plan. That of a draft sends the draft; a GET of this address is
    about the stored text."""
    plan, reach = page["plan"], page["reach"]
    drawing = plan_rows.picture(plan, page["rows"], page["work"], reach) if plan and reach else None
    drawn = {
        "g": drawing,
        "anchors": _anchors(drawing, page),
        "obstacles": plan_rows.obstacles(plan)[:OBSTACLES] if plan else [],
        "signs": plan_rows.SIGNS,
        "worst": views.WORST_FIRST,
    }
    if not page["is_draft"]:
        return {**drawn, "basis": ""}
    basis = page["plan"].get("basis") if page["plan"] else None
    branch = "" if page_request.branch == MAIN else f" --branch {page_request.branch}"
    call = f"{CURL} {shlex.quote(f'{page_request.origin}/v1/blueprints?branch={page_request.branch}&dry_run=true')}"
    return {
        **drawn,
        "basis": json.dumps(basis) if basis else "",
        "twin": "",
        "commands": [
            ("Shell", f"headgate plan {shlex.quote(page['file'])}{branch}"),
            ("curl", f"{call} -H 'Content-Type: application/json' -d {shlex.quote(_sent(page))}"),
        ],
    }


def _sent(page: PlanPage) -> str:
    """The body of the same by REST; a long text has to be a file."""
    sent = json.dumps(
        {"blueprints": [{"name": page["file"], "text": page["text"]}]}, ensure_ascii=False
    )
    return sent if len(sent) <= LONGEST_SHOWN else "@blueprint.json"


PLAN = Page("plan.html", _plan, _shown, lambda _: "headgate plan")


async def draft(request: Request) -> Response:
    return await to_thread.run_sync(_draft, request, await fields_of(request, DRAFT_BYTES))


def _draft(request: Request, fields: Fields) -> Response:
    """Plan the text, or apply the plan as shown. A refusal keeps the text, and gives its reason."""
    page_request = proven(request, fields, "edit")
    page = _empty(page_request, _flow_named(fields.get("flow", "")))
    page["text"], page["is_draft"] = fields.get("text", "").replace("\r\n", "\n"), True
    page["save_as"] = fields.get("save_as", "").strip()[:LONGEST_NAME]
    source = _source(page_request, page)
    if fields.get("do") == "check":
        return JSONResponse({"problems": _problems(page_request, source)})
    status = 200
    if (do := STORING.get(fields.get("do", ""))) is not None:
        try:
            return do(page_request, fields, source)
        except PlanMoved as error:
            page["refused"], status = _redacted(page_request, page, str(error)), MOVED
        except HeadgateError as error:
            page["refused"], status = _redacted(page_request, page, str(error)), 422
    page = _planned(page_request, page, source)
    if wants_json(request):
        return JSONResponse(page, status)
    return PLAN.show(page_request, page, overview.newest_event(page_request.context), status=status)


def _problems(page_request: PageRequest, source: blueprints.SentBlueprint) -> list[ProblemDetail]:
    faults = blueprints.problems(page_request.context, page_request.branch, [source])
    return [
        hidden.problem(page_request.context, json_views.problem(fault), source.text)
        for fault in faults
    ]


def _redacted(page_request: PageRequest, page: PlanPage, text: str) -> str:
    return hidden.words(page_request.context, text, page["text"])


def _source(page_request: PageRequest, page: PlanPage) -> blueprints.SentBlueprint:
    """With the files that the stored text names: only the text is edited here."""
    files = (
        blueprints.dataflow(page_request.context, page_request.branch, page["flow"])["files"]
        if page["flow"]
        else {}
    )
    return blueprints.SentBlueprint(page["file"], page["text"], files)


def _planned(
    page_request: PageRequest, page: PlanPage, source: blueprints.SentBlueprint
) -> PlanPage:
    try:
        applied = blueprints.apply(
            page_request.context, page_request.branch, [source], dry_run=True, modes=True
        )
    except InvalidBlueprint as error:
        problems = [
            hidden.problem(page_request.context, json_views.problem(p), page["text"])
            for p in error.problems
        ]
        line = next((detail["line"] for detail in problems if detail["line"]), 1)
        return {**page, "problems": problems, "line": line}
    except HeadgateError as error:
        return {**page, "refused": page["refused"] or _redacted(page_request, page, str(error))}
    plan = applied["plan"]
    reach = plan_reach.of_edit(page_request.context, page_request.branch, plan, source)
    return _with_plan(page_request, page, plan, reach)


def _applied(
    page_request: PageRequest, fields: Fields, source: blueprints.SentBlueprint
) -> Response:
    """Apply the plan. Raises PlanMoved, and the errors of the operation."""
    try:
        basis = BASIS.validate_json(fields.get("basis", ""))
    except ValidationError:
        raise BadForm("plan it first: what is applied is what was planned") from None
    once(
        page_request,
        "apply",
        fields,
        lambda: blueprints.carry_out(page_request.context, page_request.branch, [source], basis),
    )
    return done(
        page_request.at(
            f"/flows/{next(iter(basis['revisions']))}" if basis["revisions"] else "/flows"
        ),
        "apply",
    )


def _saved_as_branch(
    page_request: PageRequest, fields: Fields, source: blueprints.SentBlueprint
) -> Response:
    """Create a branch that has this text. A text that cannot be applied leaves no branch. Raises as
    `blueprints.apply` and `create_branch`."""
    name = fields.get("save_as", "").strip()

    def save() -> None:
        blueprints.preview(page_request.context, page_request.branch, [source])
        create_branch(page_request, name, page_request.branch)
        try:
            blueprints.apply(page_request.context, name, [source])
        except HeadgateError:
            branches.delete(page_request.context, name)
            raise

    once(page_request, "branch", fields, save)
    return done(f"/branches/{page_request.branch}...{name}", "branch")


STORING: Mapping[str, Callable[[PageRequest, Fields, blueprints.SentBlueprint], Response]] = {
    "apply": _applied,
    "branch": _saved_as_branch,
}
ROUTES: list[Route] = [*both("/plan", PLAN), Route("/plan", draft, methods=["POST"])]

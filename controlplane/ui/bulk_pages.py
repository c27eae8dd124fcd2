"""One action for several datasets or dataflows: its effect on each, and doing it.

Looking at the effects changes nothing, so choosing is a form that is sent by GET; it works without
scripts. Does not belong here: the effects (`inspect.foreseen`), the actions themselves (`actions`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, get_args

from anyio import to_thread
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from typing_extensions import TypedDict

from controlplane.core.errors import HeadgateError, NotFound
from controlplane.core.model.answers.foreseen import ForeseenEffect
from controlplane.core.model.branches import MAIN
from controlplane.operations.inspect import overview
from controlplane.operations.inspect.foreseen import BulkAction, foreseen
from controlplane.operations.inspect.hidden import visible, words
from controlplane.ui.actions import (
    ACTIONS,
    BadForm,
    Fields,
    chosen_name,
    done,
    once,
    proven,
    require_named,
)
from controlplane.ui.forms import fields_of, own_path
from controlplane.ui.names import DATASET, FLOW
from controlplane.ui.page import Page, both
from controlplane.ui.page_request import PageRequest

MOST: Final = 500  # names at once
FORM_BYTES: Final = 300_000
BULK_ACTIONS: Final[Mapping[str, BulkAction]] = {action: action for action in get_args(BulkAction)}
LABELS: Final[Mapping[BulkAction, str]] = {
    "pause": "Pause",
    "resume": "Resume",
    "retry": "Retry",
    "compute-again": "Recompute",
}
COMMANDS: Final[Mapping[BulkAction, str]] = {
    "pause": "headgate pause",
    "resume": "headgate resume",
    "retry": "headgate retry",
    "compute-again": "headgate refresh --force",
}
SHOWN_COMMANDS: Final = 5


class BulkPage(TypedDict):
    """`foreseen`: None where nothing was chosen. `gone`: names that nothing has. `refused`: by
    name, why it was not done; empty before anything is done."""

    foreseen: ForeseenEffect | None
    gone: list[str]
    refused: dict[str, str]


def _action(text: str) -> BulkAction:
    action = BULK_ACTIONS.get(text)
    if action is None:
        raise NotFound("there is no such action: pause, resume, retry or compute-again")
    return action


def _names(chosen: Iterable[str]) -> list[str]:
    """Each once. Raises BadForm."""
    names = list(dict.fromkeys(chosen))
    if len(names) > MOST:
        raise BadForm(
            f"{len(names)} names are too many for one form: choose at most {MOST}, or their dataflows"
        )
    if not all(FLOW.fullmatch(name) or DATASET.fullmatch(name) for name in names):
        raise NotFound("there is no dataflow or dataset of such a name")
    return names


def _chosen(page_request: PageRequest) -> list[str]:
    return _names(page_request.request.query_params.getlist("on"))


def _value(page_request: PageRequest) -> BulkPage:
    return _foreseen(page_request, _action(page_request.query("do")), _chosen(page_request))


def _foreseen(page_request: PageRequest, action: BulkAction, names: list[str]) -> BulkPage:
    """The effects on each target. A target that is gone by now is listed as such, and hides no
    other."""
    there = [name for name in names if page_request.may("view", name)]
    try:
        shown = (
            foreseen(page_request.context, page_request.branch, action, there) if there else None
        )
    except NotFound:
        there = [name for name in there if _is_there(page_request, action, name)]
        shown = (
            foreseen(page_request.context, page_request.branch, action, there) if there else None
        )
    missing = [name for name in names if name not in there]
    return {"foreseen": visible(page_request.context, shown), "gone": missing, "refused": {}}


def _is_there(page_request: PageRequest, action: BulkAction, name: str) -> bool:
    try:
        foreseen(page_request.context, page_request.branch, action, [name])
    except NotFound:
        return False
    return True


def _shown(page_request: PageRequest, page: BulkPage) -> Mapping[str, Any]:
    shown = page["foreseen"]
    action_text = page_request.query("do")
    return {
        "label": LABELS[_action(shown["wish"] if shown else action_text)],
        "targets": " ".join(item_shown["name"] for item_shown in shown["items"]) if shown else "",
        "back": own_path(page_request.request.query_params.get("next", "/datasets")),
    }


def _command(page_request: PageRequest) -> str:
    """One for each name, each with the branch: without it, a command would concern main. A failure
    ends them."""
    action, names = page_request.query("do"), page_request.request.query_params.getlist("on")
    command = COMMANDS.get(BULK_ACTIONS.get(action, "pause"), "")
    branch = "" if page_request.branch == MAIN else f" --branch {page_request.branch}"
    shown = [
        f"{command} {name}{branch}"
        for name in names[:SHOWN_COMMANDS]
        if FLOW.fullmatch(name) or DATASET.fullmatch(name)
    ]
    rest = len(names) - len(shown)
    return " && ".join(shown or [f"{command} NAME{branch}"]) + (
        f"  # and {rest} more" if rest else ""
    )


BULK = Page("bulk.html", _value, _shown, _command, is_of_branch=False)


async def carry_out(request: Request) -> Response:
    return await to_thread.run_sync(_carry_out, request, await fields_of(request, FORM_BYTES))


def _carry_out(request: Request, fields: Fields) -> Response:
    """Do the action for each target by itself: a refusal for one does not stop the others."""
    page_request = proven(request, fields, "operate")
    action, names = _action(fields.get("wish", "")), _names(fields.get("targets", "").split())
    do, refused = ACTIONS[action].do, dict[str, str]()
    assert do is not None

    def work() -> None:
        for name in names:
            try:
                require_named(page_request, "operate", name)
                do(page_request, {"target": name})
            except HeadgateError as error:
                refused[name] = words(page_request.context, str(error), " ".join(names))

    once(page_request, chosen_name(action), fields, work)
    if not refused:
        return done(own_path(fields.get("next", "/datasets")), chosen_name(action))
    page: BulkPage = {**_foreseen(page_request, action, names), "refused": refused}
    return BULK.show(page_request, page, overview.newest_event(page_request.context), status=422)


ROUTES: list[Route] = [*both("/bulk", BULK), Route("/bulk", carry_out, methods=["POST"])]

"""One wish for several datasets or dataflows: what it would do to each, and doing it.

Looking at what would happen changes nothing, so choosing is a form that is sent by GET; it works without scripts. Does
not belong here: what would happen (`inspect.foreseen`), what a wish does (`actions`).
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
from controlplane.core.model.answers.wishes import ForeseenWish
from controlplane.core.model.branches import MAIN
from controlplane.operations.inspect import overview
from controlplane.operations.inspect.foreseen import Wish, foreseen
from controlplane.operations.inspect.hidden import seen, words
from controlplane.ui.actions import ACTIONS, BadForm, Fields, chosen_name, done, once, proven, require_named
from controlplane.ui.asking import Asking
from controlplane.ui.forms import fields_of, own_path
from controlplane.ui.names import DATASET, FLOW
from controlplane.ui.page import Page, both

MOST: Final = 500  # names at once
FORM_BYTES: Final = 300_000
WISHES: Final[Mapping[str, Wish]] = {wish: wish for wish in get_args(Wish)}
LABELS: Final[Mapping[Wish, str]] = {
    "pause": "Pause",
    "resume": "Resume",
    "retry": "Retry",
    "compute-again": "Compute again",
}
COMMANDS: Final[Mapping[Wish, str]] = {
    "pause": "headgate pause",
    "resume": "headgate resume",
    "retry": "headgate retry",
    "compute-again": "headgate refresh --force",
}
SHOWN_COMMANDS: Final = 5


class BulkPage(TypedDict):
    """`foreseen`: None where nothing was chosen. `gone`: names that nothing has. `refused`: by name, why it was not
    done; empty before anything is done."""

    foreseen: ForeseenWish | None
    gone: list[str]
    refused: dict[str, str]


def _wish(text: str) -> Wish:
    wish = WISHES.get(text)
    if wish is None:
        raise NotFound("there is no such wish: pause, resume, retry or compute-again")
    return wish


def _names(given: Iterable[str]) -> list[str]:
    """Each once. Raises BadForm."""
    names = list(dict.fromkeys(given))
    if len(names) > MOST:
        raise BadForm(f"{len(names)} names are too many for one form: choose at most {MOST}, or their dataflows")
    if not all(FLOW.fullmatch(name) or DATASET.fullmatch(name) for name in names):
        raise NotFound("there is no dataflow or dataset of such a name")
    return names


def _chosen(asked: Asking) -> list[str]:
    return _names(asked.request.query_params.getlist("on"))


def _value(asked: Asking) -> BulkPage:
    return _foreseen(asked, _wish(asked.query("do")), _chosen(asked))


def _foreseen(asked: Asking, wish: Wish, names: list[str]) -> BulkPage:
    """What is gone by now is told, and keeps no other from being told."""
    there = [name for name in names if asked.may("view", name)]
    try:
        found = foreseen(asked.context, asked.branch, wish, there) if there else None
    except NotFound:
        there = [name for name in there if _is_there(asked, wish, name)]
        found = foreseen(asked.context, asked.branch, wish, there) if there else None
    gone = [name for name in names if name not in there]
    return {"foreseen": seen(asked.context, found), "gone": gone, "refused": {}}


def _is_there(asked: Asking, wish: Wish, name: str) -> bool:
    try:
        foreseen(asked.context, asked.branch, wish, [name])
    except NotFound:
        return False
    return True


def _shown(asked: Asking, page: BulkPage) -> Mapping[str, Any]:
    found = page["foreseen"]
    given = asked.query("do")
    return {
        "label": LABELS[_wish(found["wish"] if found else given)],
        "targets": " ".join(one["name"] for one in found["items"]) if found else "",
        "back": own_path(asked.request.query_params.get("next", "/datasets")),
    }


def _command(asked: Asking) -> str:
    """One for each name, each with the branch: one that lacked it would be a wish about main. A failure ends them."""
    wish, names = asked.query("do"), asked.request.query_params.getlist("on")
    command = COMMANDS.get(WISHES.get(wish, "pause"), "")
    branch = "" if asked.branch == MAIN else f" --branch {asked.branch}"
    shown = [
        f"{command} {name}{branch}"
        for name in names[:SHOWN_COMMANDS]
        if FLOW.fullmatch(name) or DATASET.fullmatch(name)
    ]
    more = len(names) - len(shown)
    return " && ".join(shown or [f"{command} NAME{branch}"]) + (f"  # and {more} more" if more else "")


BULK = Page("bulk.html", _value, _shown, _command, is_of_branch=False)


async def carry_out(request: Request) -> Response:
    return await to_thread.run_sync(_carry_out, request, await fields_of(request, FORM_BYTES))


def _carry_out(request: Request, fields: Fields) -> Response:
    """For each by itself: what is refused for one keeps no other from being done."""
    asked = proven(request, fields, "operate")
    wish, names = _wish(fields.get("wish", "")), _names(fields.get("targets", "").split())
    do, refused = ACTIONS[wish].do, dict[str, str]()
    assert do is not None

    def work() -> None:
        for name in names:
            try:
                require_named(asked, "operate", name)
                do(asked, {"target": name})
            except HeadgateError as error:
                refused[name] = words(asked.context, str(error), " ".join(names))

    once(asked, chosen_name(wish), fields, work)
    if not refused:
        return done(own_path(fields.get("next", "/datasets")), chosen_name(wish))
    page: BulkPage = {**_foreseen(asked, wish, names), "refused": refused}
    return BULK.show(asked, page, overview.newest_event(asked.context), status=422)


ROUTES: list[Route] = [*both("/bulk", BULK), Route("/bulk", carry_out, methods=["POST"])]

"""The requests of pages: a form for each action, which calls an operation and returns to its page.

A form has a text of its own: if it comes twice, as by a double click, it counts once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

from anyio import to_thread
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from controlplane.core import tree
from controlplane.core.errors import HeadgateError, IdempotencyConflict, NotFound
from controlplane.core.model import access
from controlplane.core.model.addresses import Generation
from controlplane.core.model.answers import BranchAnswer
from controlplane.core.model.forces import KeyRange
from controlplane.operations.context import Context
from controlplane.operations.desired import (
    branches,
    controls,
    feeds,
    merging,
    revert,
    rollback,
    s3_keys,
    tokens,
)
from controlplane.ui import gate
from controlplane.ui.forms import fields_of, own_path
from controlplane.ui.names import BRANCH, DATASET, FLOW, number_of
from controlplane.ui.page_request import NotAllowed, PageRequest, page_request_of
from controlplane.ui.session_rights import Permission, may
from dataplane.contract.encoding import digest

Fields: TypeAlias = Mapping[str, str]
NOTICE_COOKIE, NOTICE_S = "done", 20  # a cookie with the name of the last action, for the next page
HEX = frozenset("0123456789abcdef")
NO_TARGET = "there is no dataflow or dataset of this name"
LONGEST_KEY = 20_000  # characters of a partition's key


class BadForm(HeadgateError):
    """A form lacks what its page puts into it."""

    code = "invalid-request"


@dataclass(frozen=True, slots=True)
class Action:
    """`do`: None where a page of its own does it. `done`: the message afterwards. `undo`: the
    action that takes it back, if there is one."""

    permission: Permission
    do: Callable[[PageRequest, Fields], object] | None
    done: str
    undo: str | None = None


def _target(fields: Fields) -> str:
    name = fields.get("target", "")
    if not (FLOW.fullmatch(name) or DATASET.fullmatch(name)):
        raise NotFound(NO_TARGET)
    return name


def _on_target(
    control: Callable[[Context, str, str], object],
) -> Callable[[PageRequest, Fields], object]:
    """The action that calls `control` with the context, the branch and the form's target."""

    def act(page_request: PageRequest, fields: Fields) -> object:
        return control(page_request.context, page_request.branch, _target(fields))

    return act


_COMPUTE_AGAIN = partial(controls.refresh, force=True)
_ACCEPT_DELETES = partial(controls.refresh, accept_deletes=True)


def _compute_range(page_request: PageRequest, fields: Fields) -> object:
    """The form of the axis has the key before the first one."""
    first = tree.after(fields["from"][:LONGEST_KEY]) if fields.get("from") else ""
    last = fields.get("to", "")[:LONGEST_KEY] or None
    return controls.refresh(
        page_request.context,
        page_request.branch,
        _target(fields),
        partitions=KeyRange(first, last),
    )


def _retry_partition(page_request: PageRequest, fields: Fields) -> object:
    name, key = fields.get("target", ""), fields.get("partition")
    if key is None or not DATASET.fullmatch(name):
        raise BadForm("this form names no partition of a dataset")
    return controls.retry_partition(
        page_request.context, page_request.branch, name, key[:LONGEST_KEY]
    )


def _revert(page_request: PageRequest, fields: Fields) -> object:
    number = number_of(fields.get("to", ""))
    if number is None:
        raise BadForm("this form names no revision")
    return revert.revert(page_request.context, page_request.branch, _target(fields), number)


def _roll_back(page_request: PageRequest, fields: Fields) -> object:
    number = number_of(fields.get("to", ""))
    if number is None:
        raise BadForm("this form names no generation")
    reason = "".join(c for c in fields.get("reason", "") if c.isprintable())[:1000]
    return rollback.rollback(
        page_request.context,
        page_request.branch,
        _target(fields),
        Generation(number),
        reason=reason,
    )


def _branch(page_request: PageRequest, fields: Fields) -> object:
    is_pinned = fields.get("pinned") == "yes"
    return create_branch(
        page_request, fields.get("name", ""), fields.get("source", ""), pinned=is_pinned
    )


def create_branch(
    page_request: PageRequest, name: str, source: str, *, pinned: bool = False
) -> BranchAnswer:
    """Raises BadForm, BranchExists, NotAllowed, NotFound."""
    name, source = _branch_named(name), _branch_named(source)
    _require_branches(page_request, source)
    if not may(page_request.token, "edit", branch=name):
        raise NotAllowed("this token is narrowed to branches of other names")
    return branches.create(page_request.context, name, source=source, pinned=pinned)


def _branch_named(name: str) -> str:
    if not BRANCH.fullmatch(name):
        raise BadForm("a branch has a name of a to z, 0 to 9, dots, - and _, such as try-30")
    return name


def _require_branches(page_request: PageRequest, *names: str) -> None:
    """A branch has all dataflows, so its copies are for who sees them. Raises NotAllowed,
    NotFound."""
    if not page_request.is_of_all_names:
        raise NotAllowed("this token is narrowed to some dataflows, and a branch has all of them")
    for name in names:
        if name not in page_request.branches:
            raise branches.no_branch(name)


def _merge(page_request: PageRequest, fields: Fields) -> object:
    source, into = _branch_named(fields.get("source", "")), _branch_named(fields.get("into", ""))
    _require_branches(page_request, source, into)
    return merging.merge_branch(page_request.context, source, into)


def _offer_feed(page_request: PageRequest, fields: Fields) -> object:
    name = fields.get("name", "").strip()[:200]
    return feeds.create(
        page_request.context, name, _target(fields), fields.get("columns", "").strip() or None
    )


def _change_feed(page_request: PageRequest, fields: Fields) -> object:
    return feeds.change(page_request.context, fields.get("target", ""))


def _grant_feed(page_request: PageRequest, fields: Fields) -> object:
    namespace, dataflows = (
        fields.get("namespace", "").strip(),
        fields.get("dataflows", "").strip() or "*",
    )
    return feeds.grant(page_request.context, fields.get("target", ""), namespace, dataflows)


def _revoke_feed(page_request: PageRequest, fields: Fields) -> object:
    return feeds.revoke(
        page_request.context,
        fields.get("target", ""),
        fields.get("namespace", ""),
        fields.get("dataflows"),
    )


def _delete_feed(page_request: PageRequest, fields: Fields) -> None:
    feeds.delete(page_request.context, fields.get("target", ""))


def _revoke_token(page_request: PageRequest, fields: Fields) -> None:
    tokens.revoke(page_request.context, fields.get("target", "")[:100])


def _revoke_s3_key(page_request: PageRequest, fields: Fields) -> None:
    s3_keys.revoke(page_request.context, fields.get("target", "")[:100])


ACTIONS: Mapping[str, Action] = {
    "refresh": Action("operate", _on_target(controls.refresh), "Its sources are checked now."),
    "compute-again": Action(
        "operate",
        _on_target(_COMPUTE_AGAIN),
        "It is computed again, also where its result is known.",
    ),
    "compute-range": Action(
        "operate", _compute_range, "Its partitions of this range are computed again."
    ),
    "accept-deletes": Action(
        "operate", _on_target(_ACCEPT_DELETES), "The loss of source objects is accepted."
    ),
    "retry": Action("operate", _on_target(controls.retry), "What failed is tried again."),
    "retry-partition": Action(
        "operate", _retry_partition, "What failed of this partition is tried again."
    ),
    "pause": Action(
        "operate",
        _on_target(controls.pause),
        "It is paused: nothing more of it is begun.",
        undo="resume",
    ),
    "resume": Action("operate", _on_target(controls.resume), "It goes on."),
    "roll-back": Action(
        "operate", _roll_back, "It has the earlier rows, and is held there.", undo="resume"
    ),
    "pause-chosen": Action("operate", None, "All that was chosen is paused."),
    "resume-chosen": Action("operate", None, "All that was chosen goes on."),
    "retry-chosen": Action("operate", None, "What failed of all that was chosen is tried again."),
    "compute-again-chosen": Action("operate", None, "All that was chosen is computed again."),
    "apply": Action("edit", None, "It is stored, and computed where something changed."),
    "revoke-token": Action("admin", _revoke_token, "The token is over, and so are its sessions."),
    "revoke-s3-key": Action("admin", _revoke_s3_key, "The key is over."),
    "feed-offer": Action(
        "admin", _offer_feed, "It is offered: grant it to those who are to read it."
    ),
    "feed-change": Action(
        "admin", _change_feed, "The feed promises the columns that its dataset has."
    ),
    "feed-grant": Action("admin", _grant_feed, "They may read the feed."),
    "feed-revoke": Action(
        "admin", _revoke_feed, "The grant is over; who read it keeps what there is."
    ),
    "feed-delete": Action("admin", _delete_feed, "The feed is over."),
    "revert": Action("edit", _revert, "The earlier text is the newest revision now."),
    "branch": Action("edit", _branch, "The branch is there."),
    "merge": Action("edit", _merge, "It is merged."),
}


def chosen_name(action: str) -> str:
    """The name of the action that does it for several names."""
    return f"{action}-chosen"


async def ask(request: Request) -> Response:
    fields = await fields_of(request)
    return await to_thread.run_sync(_ask, request, fields)


def _ask(request: Request, fields: Fields) -> Response:
    name = request.path_params["action"]
    action = ACTIONS.get(name)
    if action is None or (do := action.do) is None:
        raise NotFound("nothing has this address")
    page_request = proven(request, fields, action.permission)
    if action.permission != "admin" and "target" in fields:
        require_named(page_request, action.permission, _target(fields))
    once(page_request, name, fields, lambda: do(page_request, fields))
    return done(own_path(fields.get("next", "/")), name)


def done(onward: str, name: str) -> Response:
    """Redirect to a page, which shows once that the action was done."""
    answer = RedirectResponse(onward, 303)
    answer.set_cookie(
        NOTICE_COOKIE, name, max_age=NOTICE_S, path="/", httponly=True, samesite="lax"
    )
    return answer


def proven(request: Request, fields: Fields, permission: Permission) -> PageRequest:
    """Who asks by a form of ours. Raises SignedOut, WrongHost, NotProven, NotAllowed."""
    page_request = page_request_of(request, fields.get(gate.PROOF_FIELD, ""))
    if why := page_request.why_not(permission):
        raise NotAllowed(why)
    return page_request


def require_named(page_request: PageRequest, permission: Permission, name: str) -> None:
    """A dataset, or a dataflow as a whole. Raises NotFound with the message of a missing target."""
    if not page_request.may(permission, name):
        raise NotFound(NO_TARGET)


def once(page_request: PageRequest, name: str, fields: Fields, work: Callable[[], object]) -> None:
    """Do the work, unless the same form did it before. Raises BadForm."""
    text = fields.get("once", "")
    if len(text) != 32 or not HEX.issuperset(text):
        raise BadForm("this form is not whole: load its page again")
    key, body = (
        f"page:{page_request.token.id}:{text}",
        digest("page-form/1", name=name, fields=dict(fields)),
    )
    store, namespace = page_request.services.store, page_request.context.namespace
    with page_request.services.turn(key):
        with store.read(namespace) as tx:
            is_done = tx.audit.answer(key) is not None
        if is_done:
            return
        work()
        with suppress(IdempotencyConflict), store.begin(namespace) as tx:
            tx.audit.put_answer(access.StoredAnswer(key=key, body=body, status=303, response=""))


ROUTES = [Route("/actions/{action}", ask, methods=["POST"])]

"""Links that open one session of the pages."""

from __future__ import annotations

from controlplane.api import auth, authentication
from controlplane.api.calls import Called, JsonAnswer, answer
from controlplane.api.problem_json import RequestRefused
from controlplane.core import rest
from controlplane.core.model.answers import SessionLinkAnswer
from controlplane.operations.desired import browser_sessions

router = auth.router("view", "all")


@router.answers(rest.SESSION_LINK)
def create(call: Called) -> JsonAnswer[SessionLinkAnswer]:
    """Make a link that opens one session of the caller's own token, once, within five minutes."""
    if call.repeat is not None:
        raise RequestRefused(
            "not-supported", "an Idempotency-Key cannot go with a link: it is shown once"
        )
    text, expires = browser_sessions.link(call.context, authentication.caller(call.request))
    return answer({"path": f"/open?key={text}", "expires": expires}, 201)

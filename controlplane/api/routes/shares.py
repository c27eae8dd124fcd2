"""Making, filling and listing shares; making, listing and revoking recipients. For administrators:
shared data leaves the installation."""

from __future__ import annotations

from typing import Annotated

from fastapi import Path, Response
from pydantic import Field

from controlplane.api import auth
from controlplane.api.calls import Called, ClosedBody, JsonAnswer, answer, branch_of, dataset_of
from controlplane.api.problem_json import RequestRefused
from controlplane.core import rest
from controlplane.core.model.answers.shares import (
    NewRecipientAnswer,
    RecipientsAnswer,
    ShareEntry,
    SharesAnswer,
)
from controlplane.core.model.shares import NAME
from controlplane.operations.desired import recipients, shares
from controlplane.operations.desired.recipients import NewRecipient
from controlplane.operations.desired.shares import TABLE, NewTable
from controlplane.operations.inspect.json_views import instant
from controlplane.services.sharing.register import PREFIX

router = auth.router("admin")
ShareName = Annotated[str, Path(pattern=f"^{NAME}$")]


class NewShare(ClosedBody):
    """A share without datasets."""

    name: str = Field(pattern=f"^{NAME}$")


@router.answers(rest.CREATE_SHARE)
def create(call: Called, new: NewShare) -> JsonAnswer[ShareEntry]:
    """Make a share."""
    return call.once(lambda: answer(shares.create(call.context, new.name), 201))


@router.answers(rest.SHARES)
def listing(call: Called) -> JsonAnswer[SharesAnswer]:
    """All shares, with their tables and recipients."""
    return answer({"items": shares.listing(call.context), "next": None})


@router.answers(rest.SHARE)
def show(call: Called, share: ShareName) -> JsonAnswer[ShareEntry]:
    """One share."""
    return answer(shares.show(call.context, share))


@router.responds(rest.DELETE_SHARE)
def delete(call: Called, share: ShareName) -> Response:
    """End a share now, for all its recipients."""
    shares.delete(call.context, share)
    return Response(status_code=204)


@router.answers(rest.ADD_TO_SHARE)
def add(call: Called, share: ShareName, new: NewTable) -> JsonAnswer[ShareEntry]:
    """Give a dataset, or change whether its history is given."""
    branch_of(call, new.branch)
    dataset_of(call, new.dataset)
    return call.once(lambda: answer(shares.add(call.context, share, new), 201))


@router.answers(rest.REMOVE_FROM_SHARE)
def remove(
    call: Called, share: ShareName, table: Annotated[str, Path(pattern=TABLE)]
) -> JsonAnswer[ShareEntry]:
    """Take a dataset out now, by the name that recipients know."""
    return answer(shares.remove(call.context, share, table))


@router.answers(rest.CREATE_RECIPIENT)
def invite(call: Called, new: NewRecipient) -> JsonAnswer[NewRecipientAnswer]:
    """Make a recipient; keep its profile, which is not stored. So a repeat with an Idempotency-Key
    cannot be answered."""
    if call.repeat is not None:
        raise RequestRefused(
            "not-supported",
            "an Idempotency-Key cannot go with a recipient: its profile is shown once",
        )
    text, token = recipients.create(call.context, new)
    entry = recipients.shown(call.context, token)
    base = str(call.request.base_url).rstrip("/")
    made: NewRecipientAnswer = {
        **entry,
        "profile": {
            "shareCredentialsVersion": 1,
            "endpoint": f"{base}{PREFIX}",
            "bearerToken": text,
            "expirationTime": instant(entry["expires"]).replace("+00:00", "Z"),
        },
    }
    return answer(made, 201)


@router.answers(rest.RECIPIENTS)
def invited(call: Called) -> JsonAnswer[RecipientsAnswer]:
    """All recipients, without their profiles."""
    return answer({"items": recipients.listing(call.context), "next": None})


@router.responds(rest.REVOKE_RECIPIENT)
def revoke(
    call: Called, recipient: Annotated[str, Path(pattern=r"^[^\x00-\x1f\x7f]{1,100}$")]
) -> Response:
    """End a recipient now: that with this id, or else the live one with this name."""
    recipients.revoke(call.context, recipient)
    return Response(status_code=204)

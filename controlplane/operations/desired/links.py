"""Signed links: one dataset, read only, without a token, for tools that cannot send headers.

A link's signature is derived from the installation's secret and all that the link fixes, each time,
and not stored: access to the database is not enough to make a link or to widen one. A link never
reads more than its maker may, and ends with its maker's token.
"""

from __future__ import annotations

import hmac
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Annotated

from pydantic import Field

from controlplane.core.errors import LinkEnded, NotFound, WrongSignature
from controlplane.core.model import addresses, namespaces
from controlplane.core.model.access import Token
from controlplane.core.model.answers.links import LinkEntry
from controlplane.core.model.branches import MAIN
from controlplane.core.model.links import Link
from controlplane.core.records import requested_columns, where
from controlplane.core.records.formats import Compression, Format
from controlplane.core.rights import may
from controlplane.operations.change_audit import note_change
from controlplane.operations.context import Context
from controlplane.operations.desired import tokens
from controlplane.operations.inspect.json_views import instant
from controlplane.operations.inspect.records import RecordsRequest
from controlplane.operations.inspect.time_travel import state_of
from controlplane.operations.request_body import BranchName, DatasetName, Names, RequestBody
from controlplane.ports.store import Store, Tx
from dataplane.contract.encoding import canonical

DAY_S = 86_400.0
LONGEST_S = 366 * DAY_S
_TAG = b"headgate/link/1\n"
_DIGITS = 32  # of an id
_OPEN = ("revoked",)  # what may change without another signature


@dataclass(frozen=True, slots=True)
class NewLink(RequestBody):
    """What a link answers, and for how long. `at`: a generation or a time with its zone."""

    dataset: DatasetName
    branch: BranchName = MAIN
    format: Format = "csv"
    compression: Compression | None = None
    at: Annotated[str | None, Field(max_length=100)] = None
    partition: Annotated[str | None, Field(max_length=20_000)] = None
    columns: Annotated[Names, Field(max_length=1_000)] = ()
    where: Annotated[str | None, Field(max_length=20_000)] = None
    limit: Annotated[int | None, Field(ge=0, le=2**53)] = None
    ttl_s: Annotated[float, Field(gt=0, le=LONGEST_S)] = 7 * DAY_S


def create(ctx: Context, maker: Token, new: NewLink) -> Link:
    """A link of a dataset that has data; without `at`, of its newest state, which moves.

    Raises NotFound, GenerationGone, BadAddress, BadColumns, BadCondition.
    """
    point = addresses.point_of(new.at) if new.at else None
    with ctx.begin() as tx:
        schema = state_of(tx, new.branch, new.dataset, point).schema
        requested_columns.chosen(schema, new.columns)
        if new.where is not None:
            where.parse(new.where, schema)
        now = tx.now()
        link = Link(
            uuid.uuid4().hex[:_DIGITS],
            maker.id,
            ctx.actor,
            branch=new.branch,
            dataset=new.dataset,
            format=new.format,
            compression=new.compression,
            point=str(point or ""),
            partition=new.partition,
            columns=new.columns,
            where=new.where,
            limit=new.limit,
            at=now,
            expires=now + min(new.ttl_s, LONGEST_S),
        )
        tx.links.put(link)
        note_change(ctx, tx, "link.create", link.id, after=_audited(link))
    return link


def signature(installation: bytes, namespace: str, link: Link) -> str:
    """The signature in a link's address, beside its id. It names the namespace, too.
    `installation`: the secret of the installation."""
    fixed = {name: value for name, value in asdict(link).items() if name not in _OPEN}
    text = canonical({"namespace": namespace, **fixed, "columns": list(link.columns)})
    signed = (
        urlsafe_b64encode(hmac.digest(installation, _TAG + text, "sha256"))
        .rstrip(b"=")
        .decode("ascii")
    )
    return namespaces.text_in(namespace, signed)


def find(store: Store, installation: bytes, id: str, sent_signature: str) -> tuple[Link, Token]:
    """The live link of this id and signature, and its maker. Raises WrongSignature, whether there
    is such a link or not, and LinkEnded, but only for the right signature."""
    namespace = namespaces.of_text(sent_signature)
    with store.read(namespace) as tx:
        link = tx.links.get(id)
        expected = "" if link is None else signature(installation, namespace, link)
        is_right = hmac.compare_digest(expected.encode(), sent_signature.encode("utf-8", "replace"))
        if link is None or not is_right:
            raise WrongSignature("this is no link of this installation, or not all of its address")
        maker, ended = tokens.live(tx, tx.access.token_by_id(link.maker)), _ended(tx, link)
    if ended or maker is None:
        raise LinkEnded(f"this link {ended}; ask who gave it to you for another one")
    return link, maker


def may_read(maker: Token, link: Link) -> bool:
    """Whether the token that made a link may itself read the link's dataset, as of now. All rights
    end here."""
    return may(maker.principal, "data", dataset=link.dataset, branch=link.branch)


def _ended(tx: Tx, link: Link) -> str:
    """Why a link is over, in words; empty while it is not."""
    if link.revoked:
        return "was revoked"
    if link.expires <= tx.now():
        return f"ended at {instant(link.expires)}"
    maker = tokens.live(tx, tx.access.token_by_id(link.maker))
    if maker is None:
        return "ended with the token that made it"
    return "" if may_read(maker, link) else "reads what its maker may not read any more"


def request_of(link: Link) -> tuple[addresses.Point | None, RecordsRequest]:
    """The point and the records that a link reads."""
    point = addresses.point_of(link.point) if link.point else None
    return point, RecordsRequest(link.partition, link.columns, link.where, limit=link.limit)


def revoke(ctx: Context, caller: Token, id: str) -> None:
    """End a link now. Raises NotFound, also for another user's link unless the caller
    administers."""
    with ctx.begin() as tx:
        link = tx.links.get(id)
        if link is None or not _is_shown(link, caller):
            raise NotFound(f"there is no link {id}; `headgate link list` has them")
        tx.links.put(replace(link, revoked=True))
        before, after = (
            {"dataset": link.dataset, "revoked": revoked} for revoked in (link.revoked, True)
        )
        note_change(ctx, tx, "link.revoke", link.id, before=before, after=after)


def listing(ctx: Context, caller: Token) -> list[LinkEntry]:
    """The caller's links, or all for an administrator, without their addresses."""
    with ctx.read() as tx:
        return [
            entry_of(link, _ended(tx, link)) for link in tx.links.all() if _is_shown(link, caller)
        ]


def _is_shown(link: Link, caller: Token) -> bool:
    return link.maker == caller.id or may(caller.principal, "admin")


def entry_of(link: Link, ended: str = "") -> LinkEntry:
    return {
        "id": link.id,
        "branch": link.branch,
        "dataset": link.dataset,
        "point": link.point,
        "format": link.format,
        "compression": link.compression,
        "partition": link.partition,
        "columns": list(link.columns),
        "where": link.where,
        "limit": link.limit,
        "by": link.actor,
        "at": link.at,
        "expires": link.expires,
        "ended": ended,
    }


def _audited(link: Link) -> Mapping[str, object]:
    return {k: v for k, v in entry_of(link).items() if k not in ("id", "by", "at", "ended")}

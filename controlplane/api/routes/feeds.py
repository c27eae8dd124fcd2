"""Making, granting and listing feeds, for administrators: granted data leaves the dataflow, and
perhaps the namespace."""

from __future__ import annotations

from typing import Annotated

from fastapi import Path, Query, Response
from pydantic import Field

from controlplane.api import auth
from controlplane.api.calls import Called, ClosedBody, JsonAnswer, answer, dataset_of
from controlplane.core import rest
from controlplane.core.model.answers.feeds import FeedEntry, FeedsAnswer, OfferedFeedsAnswer
from controlplane.core.model.feeds import GLOB, NAME
from controlplane.operations.desired import feeds
from controlplane.operations.request_body import DatasetName

router = auth.router("admin")
FeedName = Annotated[str, Path(pattern=f"^{NAME}$")]
Dataflows = Annotated[str | None, Query(pattern=rf"^{GLOB}$")]


class NewFeed(ClosedBody):
    """A dataset of main under a name. `columns`: the contract as DDL; all that it has by
    default."""

    name: str = Field(pattern=f"^{NAME}$")
    dataset: DatasetName
    columns: str | None = Field(None, min_length=1, max_length=100_000)


class Contract(ClosedBody):
    """`columns`: the contract as DDL; all that the dataset has now by default."""

    columns: str | None = Field(None, min_length=1, max_length=100_000)


class NewGrant(ClosedBody):
    """Who may read a feed: dataflows of a namespace, by name or pattern."""

    namespace: str = Field(min_length=1, max_length=100)
    dataflows: str = Field("*", pattern=f"^{GLOB}$")


@router.answers(rest.CREATE_FEED)
def create(call: Called, new: NewFeed) -> JsonAnswer[FeedEntry]:
    """Offer a dataset that has data. Dataflows read it once it is granted to them."""
    dataset = dataset_of(call, new.dataset)
    return call.once(
        lambda: answer(feeds.create(call.context, new.name, dataset, new.columns), 201)
    )


@router.answers(rest.FEEDS)
def listing(call: Called) -> JsonAnswer[FeedsAnswer]:
    """All feeds of this namespace, with their grants and readers."""
    return answer({"items": feeds.listing(call.context), "next": None})


@router.answers(rest.FEED)
def show(call: Called, feed: FeedName) -> JsonAnswer[FeedEntry]:
    """One feed."""
    return answer(feeds.show(call.context, feed))


@router.answers(rest.CHANGE_FEED)
def change(call: Called, feed: FeedName, contract: Contract | None = None) -> JsonAnswer[FeedEntry]:
    """Promise more columns, or wider types. Readers go on, also those who waited since a column
    became wider."""
    columns = contract.columns if contract else None
    return call.once(lambda: answer(feeds.change(call.context, feed, columns)))


@router.responds(rest.DELETE_FEED)
def delete(call: Called, feed: FeedName) -> Response:
    """Delete a feed without readers."""
    feeds.delete(call.context, feed)
    return Response(status_code=204)


@router.answers(rest.GRANT_FEED)
def grant(call: Called, feed: FeedName, new: NewGrant) -> JsonAnswer[FeedEntry]:
    """Let dataflows of a namespace read a feed."""
    return call.once(
        lambda: answer(feeds.grant(call.context, feed, new.namespace, new.dataflows), 201)
    )


@router.answers(rest.REVOKE_FEED)
def revoke(
    call: Called,
    feed: FeedName,
    namespace: Annotated[str, Path(max_length=100)],
    dataflows: Dataflows = None,
) -> JsonAnswer[FeedEntry]:
    """Take the grants of a namespace away, or the one with this pattern. Readers keep what they
    have."""
    return answer(feeds.revoke(call.context, feed, namespace, dataflows))


@router.answers(rest.OFFERED_FEEDS, dependencies=auth.needs("view"))
def offered(call: Called) -> JsonAnswer[OfferedFeedsAnswer]:
    """Feeds of all namespaces that dataflows of this one may read."""
    return answer({"items": feeds.offered(call.context), "next": None})

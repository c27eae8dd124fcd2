"""The page of feeds: those that this namespace offers, is offered, and follows.

Only administrators of the whole namespace see the offers and their receivers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlette.routing import Route
from typing_extensions import TypedDict

from controlplane.core.model.answers.feeds import FeedEntry, FeedReading, OfferedFeed
from controlplane.operations.desired import feeds
from controlplane.operations.inspect import feed_reading
from controlplane.operations.inspect.hidden import visible
from controlplane.ui.page import Page, both
from controlplane.ui.page_request import PageRequest
from controlplane.ui.session_rights import may


class FeedsPage(TypedDict):
    """`feeds`: those that this namespace offers; None where the token may not see them. `offered`:
    those that its dataflows may read, its own ones among them; none to who sees some dataflows
    only. `reading`: datasets of the branch that follow one."""

    feeds: list[FeedEntry] | None
    offered: list[OfferedFeed]
    reading: list[FeedReading]


def _feeds(page_request: PageRequest) -> FeedsPage:
    sees_all = may(page_request.token, "admin")  # which a token limited to some names never is
    return {
        "feeds": feeds.listing(page_request.context) if sees_all else None,
        "offered": feeds.offered(page_request.context) if page_request.is_of_all_names else [],
        "reading": visible(
            page_request.context, feed_reading.reading(page_request.context, page_request.branch)
        ),
    }


def _shown(page_request: PageRequest, page: FeedsPage) -> Mapping[str, Any]:
    """`read_by`: datasets here, by the feed that they follow. `blueprints`: what stands in a
    blueprint, by feed."""
    read_by: dict[tuple[str, str], list[str]] = {}
    for feed in page["reading"]:
        read_by.setdefault((feed["namespace"], feed["feed"]), []).append(feed["dataset"])
    own = page_request.context.namespace
    blueprints = {
        (feed["namespace"], feed["feed"]): f"read: {{connector: feed, feed: {feed['feed']}"
        + ("}" if feed["namespace"] == own else f", namespace: {feed['namespace']}}}")
        for feed in page["offered"]
    }
    return {"read_by": read_by, "blueprints": blueprints, "namespace": own}


FEEDS = Page("feeds.html", _feeds, _shown, lambda _: "headgate feed list", is_of_branch=False)
ROUTES: list[Route] = [*both("/feeds", FEEDS)]

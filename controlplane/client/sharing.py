"""Data for others: Delta Sharing, and feeds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from controlplane.client.connection import HttpConnection
from controlplane.core import rest

if TYPE_CHECKING:
    from controlplane.core.model.answers.feeds import FeedEntry, OfferedFeed
    from controlplane.core.model.answers.shares import (
        NewRecipientAnswer,
        RecipientEntry,
        ShareEntry,
    )


class SharingCalls(HttpConnection):
    """Delta Sharing, and feeds."""

    def create_share(self, name: str) -> ShareEntry:
        """A share without datasets."""
        return self._call(rest.CREATE_SHARE, name=name)

    def shares(self) -> list[ShareEntry]:
        """All shares, with their tables and recipients."""
        return self._call(rest.SHARES)["items"]

    def share(self, name: str) -> ShareEntry:
        """One share."""
        return self._call(rest.SHARE, share=name)

    def delete_share(self, name: str) -> None:
        """End a share now, for all its recipients."""
        self._call(rest.DELETE_SHARE, share=name)

    def add_to_share(
        self,
        share: str,
        dataset: str,
        *,
        alias: str | None = None,
        branch: str = "main",
        history: bool = False,
    ) -> ShareEntry:
        """Give a dataset. `alias`: `schema.table` for recipients; `history`: with its earlier
        generations."""
        name = {"as": alias}
        return self._call(
            rest.ADD_TO_SHARE, share=share, dataset=dataset, branch=branch, history=history, **name
        )

    def remove_from_share(self, share: str, table: str) -> ShareEntry:
        """Take a dataset out now, by the name that recipients know, `schema.table`."""
        return self._call(rest.REMOVE_FROM_SHARE, share=share, table=table)

    def create_recipient(
        self, name: str, shares: Sequence[str], *, ttl_s: float | None = None
    ) -> NewRecipientAnswer:
        """A recipient of shares, with its profile, which is shown once."""
        lifetime = {} if ttl_s is None else {"ttl_s": ttl_s}
        return self._call(rest.CREATE_RECIPIENT, name=name, shares=list(shares), **lifetime)

    def recipients(self) -> list[RecipientEntry]:
        """All recipients, without their profiles."""
        return self._call(rest.RECIPIENTS)["items"]

    def revoke_recipient(self, recipient: str) -> None:
        """End a recipient now, by its id or name."""
        self._call(rest.REVOKE_RECIPIENT, recipient=recipient)

    def create_feed(self, name: str, dataset: str, *, columns: str | None = None) -> FeedEntry:
        """Offer a dataset of main that has data. `columns`: the contract as DDL; all that it has by
        default."""
        return self._call(rest.CREATE_FEED, name=name, dataset=dataset, columns=columns)

    def feeds(self) -> list[FeedEntry]:
        """All feeds of this namespace, with their grants and readers."""
        return self._call(rest.FEEDS)["items"]

    def feed(self, name: str) -> FeedEntry:
        """One feed."""
        return self._call(rest.FEED, feed=name)

    def change_feed(self, name: str, *, columns: str | None = None) -> FeedEntry:
        """Promise more: further columns, or wider types. `columns`: the contract as DDL; all that
        the dataset has now by default."""
        return self._call(rest.CHANGE_FEED, feed=name, columns=columns)

    def delete_feed(self, name: str) -> None:
        """Delete a feed without readers."""
        self._call(rest.DELETE_FEED, feed=name)

    def grant_feed(self, name: str, namespace: str, *, dataflows: str = "*") -> FeedEntry:
        """Let dataflows of a namespace read a feed: one by its name, or those that a pattern
        fits."""
        return self._call(rest.GRANT_FEED, feed=name, namespace=namespace, dataflows=dataflows)

    def revoke_feed(self, name: str, namespace: str, *, dataflows: str | None = None) -> FeedEntry:
        """Take the grants of a namespace away, or the one with this pattern. Readers keep what they
        have."""
        return self._call(rest.REVOKE_FEED, feed=name, namespace=namespace, dataflows=dataflows)

    def offered_feeds(self) -> list[OfferedFeed]:
        """Feeds of all namespaces that dataflows of this one may read."""
        return self._call(rest.OFFERED_FEEDS)["items"]

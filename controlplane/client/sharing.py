"""Data for others: Delta Sharing, and feeds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from controlplane.client.connection import Connection
from controlplane.client.requests import segment

if TYPE_CHECKING:
    from controlplane.core.model.answers.feeds import FeedEntry, OfferedFeed
    from controlplane.core.model.answers.shares import (
        NewRecipientAnswer,
        RecipientEntry,
        ShareEntry,
    )


class Sharing(Connection):
    """Delta Sharing, and feeds."""

    def create_share(self, name: str) -> ShareEntry:
        """A share without datasets."""
        return self._post("/v1/shares", {"name": name})

    def shares(self) -> list[ShareEntry]:
        """All shares, with their tables and recipients."""
        return self._items("/v1/shares")

    def share(self, name: str) -> ShareEntry:
        """One share."""
        return self._get(f"/v1/shares/{segment(name)}")

    def delete_share(self, name: str) -> None:
        """End a share now, for all its recipients."""
        self._delete(f"/v1/shares/{segment(name)}")

    def add_to_share(
        self, share: str, dataset: str, *, alias: str | None = None, branch: str = "main", history: bool = False
    ) -> ShareEntry:
        """Give a dataset. `alias`: `schema.table` for recipients; `history`: with its earlier generations."""
        body: dict[str, object] = {"dataset": dataset, "as": alias, "branch": branch, "history": history}
        return self._post(f"/v1/shares/{segment(share)}/tables", body)

    def remove_from_share(self, share: str, table: str) -> ShareEntry:
        """Take a dataset out now, by the name that recipients know, `schema.table`."""
        path = f"/v1/shares/{segment(share)}/tables/{segment(table)}"
        return self._delete(path)

    def create_recipient(self, name: str, shares: Sequence[str], *, ttl_s: float | None = None) -> NewRecipientAnswer:
        """A recipient of shares, with its profile, which is shown once."""
        body: dict[str, object] = {"name": name, "shares": list(shares)}
        body |= {} if ttl_s is None else {"ttl_s": ttl_s}
        return self._post("/v1/recipients", body)

    def recipients(self) -> list[RecipientEntry]:
        """All recipients, without their profiles."""
        return self._items("/v1/recipients")

    def revoke_recipient(self, recipient: str) -> None:
        """End a recipient now, by its id or name."""
        self._delete(f"/v1/recipients/{segment(recipient)}")

    def create_feed(self, name: str, dataset: str, *, columns: str | None = None) -> FeedEntry:
        """Offer a dataset of main that has data. `columns`: the contract as DDL; all that it has by default."""
        return self._post("/v1/feeds", {"name": name, "dataset": dataset, "columns": columns})

    def feeds(self) -> list[FeedEntry]:
        """All feeds of this namespace, with their grants and readers."""
        return self._items("/v1/feeds")

    def feed(self, name: str) -> FeedEntry:
        """One feed."""
        return self._get(f"/v1/feeds/{segment(name)}")

    def change_feed(self, name: str, *, columns: str | None = None) -> FeedEntry:
        """Promise more: further columns, or wider types. `columns`: the contract as DDL; all that the dataset has now
        by default."""
        return self._put(f"/v1/feeds/{segment(name)}", {"columns": columns})

    def delete_feed(self, name: str) -> None:
        """Delete a feed without readers."""
        self._delete(f"/v1/feeds/{segment(name)}")

    def grant_feed(self, name: str, namespace: str, *, dataflows: str = "*") -> FeedEntry:
        """Let dataflows of a namespace read a feed: one by its name, or those that a pattern fits."""
        body = {"namespace": namespace, "dataflows": dataflows}
        return self._post(f"/v1/feeds/{segment(name)}/grants", body)

    def revoke_feed(self, name: str, namespace: str, *, dataflows: str | None = None) -> FeedEntry:
        """Take the grants of a namespace away, or the one with this pattern. Readers keep what they have."""
        path = f"/v1/feeds/{segment(name)}/grants/{segment(namespace)}"
        params = {} if dataflows is None else {"dataflows": dataflows}
        return self._delete(path, params)

    def offered_feeds(self) -> list[OfferedFeed]:
        """Feeds of all namespaces that dataflows of this one may read."""
        return self._items("/v1/offers")

"""Branches: making, merging and comparing them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING

from controlplane.client.connection import Connection
from controlplane.client.requests import dataset_path, only_given, overriding, segment

if TYPE_CHECKING:
    from controlplane.core.model.answers import (
        BranchAnswer,
        BranchDifference,
        DataDifference,
        DropBranchAnswer,
        MergeAnswer,
    )
    from controlplane.core.model.json_values import JsonObject


class Branches(Connection):
    """Making, merging and comparing them."""

    def branches(self) -> list[BranchAnswer]:
        """All beside main."""
        return self._items("/v1/branches")

    def branch(self, name: str) -> BranchAnswer:
        return self._get(f"/v1/branches/{segment(name)}")

    def create_branch(
        self,
        name: str,
        *,
        source: str = "main",
        days: float | None = 14.0,
        protected: bool = False,
        redirect: Mapping[str, str] | None = None,
        pinned: bool = False,
        publish: bool = False,
    ) -> BranchAnswer:
        """`days` without an edit after which it ends; None keeps it. `redirect`: where write components write to.
        `pinned`: it sees main as it is now. `publish`: datasets of its own also become Delta tables."""
        body: JsonObject = {"name": name, "source": source, "days": days, "protected": protected}
        body |= {"redirect": dict(redirect or {}), "pinned": pinned, "publish": publish}
        return self._post("/v1/branches", body)

    def update_branch(self, name: str) -> BranchAnswer:
        """Have a pinned branch see main as it is now."""
        return self._post(f"/v1/branches/{segment(name)}/update", {})

    def protect_branch(self, name: str, *, protected: bool) -> BranchAnswer:
        """Whether it changes by merges alone."""
        path = f"/v1/branches/{segment(name)}/protection"
        return self._put(path, {"protected": protected})

    def delete_branch(self, name: str, *, override: bool = False) -> DropBranchAnswer:
        path = f"/v1/branches/{segment(name)}"
        return self._delete(path, overriding(override))

    def merge_branch(
        self,
        name: str,
        *,
        into: str = "main",
        dry_run: bool = False,
        take: Mapping[str, str] = MappingProxyType({}),
        when_ready: bool = False,
    ) -> MergeAnswer:
        """`take` settles conflicts: `dataflow.component` to `ours` or `theirs`. `when_ready`: only if nothing is left
        to compute."""
        body: JsonObject = {"into": into, "dry_run": dry_run, "take": dict(take), "when_ready": when_ready}
        return self._post(f"/v1/branches/{segment(name)}/merge", body)

    def diff_branches(self, one: str, other: str) -> BranchDifference:
        """From the first to the second. Pages are put together."""
        path = f"/v1/branches/{segment(one)}/diff/{segment(other)}"
        page: BranchDifference = self._get(path)
        difference = page
        while page["next"] is not None:
            page = self._get(path, {"after": page["next"]})
            difference["components"] += page["components"]
            difference["datasets"] += page["datasets"]
        return {**difference, "next": None}

    def diff_dataset(
        self,
        name: str,
        one: str | None = None,
        other: str | None = None,
        *,
        branch: str = "main",
        onto: str | None = None,
        partition: str | None = None,
        rows_s: float | None = None,
        key: Sequence[str] = (),
        after: str | None = None,
        limit: int = 100,
    ) -> DataDifference:
        """How a dataset differs from generation or time `one` to `other`, by default the newest; or, with `onto`, from
        a branch to that one. `rows_s`: how long to wait at most for rows to be compared; None compares none. `key`:
        columns that identify a row. `after`: the `next` of the page before."""
        query: dict[str, str | int | Sequence[str]] = {"limit": limit, **({"key": list(key)} if key else {})}
        query |= only_given(partition=partition, after=after)
        query |= {} if rows_s is None else {"rows": "true", "timeout_s": f"{rows_s:g}"}
        if onto is None:
            path = f"{dataset_path(branch, name)}/diff"
            query |= only_given(one=one, other=other)
        else:
            path = f"/v1/branches/{segment(branch)}/diff/{segment(onto)}"
            query["dataset"] = name
        return self._get(path, query, wait_s=rows_s)

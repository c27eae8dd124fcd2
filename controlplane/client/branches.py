"""Branches: making, merging and comparing them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, cast

from controlplane.client.connection import HttpConnection
from controlplane.core import rest

if TYPE_CHECKING:
    from controlplane.core.model.answers import (
        BranchAnswer,
        BranchDifference,
        DataDifference,
        DropBranchAnswer,
        MergeAnswer,
    )


class BranchCalls(HttpConnection):
    """Making, merging and comparing them."""

    def branches(self) -> list[BranchAnswer]:
        """All beside main."""
        return self._call(rest.BRANCHES)["items"]

    def branch(self, name: str) -> BranchAnswer:
        return self._call(rest.BRANCH, branch=name)

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
        """`days` without an edit after which it ends; None keeps it. `redirect`: where write
        components write to. `pinned`: it sees main as it is now. `publish`: datasets of its own
        also become Delta tables."""
        options = {"name": name, "source": source, "days": days, "protected": protected}
        targets = dict(redirect or {})
        return self._call(
            rest.CREATE_BRANCH, redirect=targets, pinned=pinned, publish=publish, **options
        )

    def update_branch(self, name: str) -> BranchAnswer:
        """Have a pinned branch see main as it is now."""
        return self._call(rest.UPDATE_BRANCH, branch=name)

    def protect_branch(self, name: str, *, protected: bool) -> BranchAnswer:
        """Whether it changes by merges alone."""
        return self._call(rest.PROTECT_BRANCH, branch=name, protected=protected)

    def delete_branch(self, name: str, *, override: bool = False) -> DropBranchAnswer:
        return self._call(rest.DELETE_BRANCH, branch=name, override=override or None)

    def merge_branch(
        self,
        name: str,
        *,
        into: str = "main",
        dry_run: bool = False,
        take: Mapping[str, str] = MappingProxyType({}),
        when_ready: bool = False,
    ) -> MergeAnswer:
        """`take` settles conflicts: `dataflow.component` to `ours` or `theirs`. `when_ready`: only
        if nothing is left to compute."""
        options = {"dry_run": dry_run, "take": dict(take), "when_ready": when_ready}
        return self._call(rest.MERGE_BRANCH, branch=name, into=into, **options)

    def diff_branches(self, one: str, other: str) -> BranchDifference:
        """From the first to the second. Pages are put together."""
        page = self._difference(one, other)
        difference = page
        while page["next"] is not None:
            page = self._difference(one, other, page["next"])
            difference["components"] += page["components"]
            difference["datasets"] += page["datasets"]
        return {**difference, "next": None}

    def _difference(self, branch: str, other: str, after: str | None = None) -> BranchDifference:
        return cast(
            "BranchDifference",
            self._call(rest.DIFF_BRANCHES, branch=branch, other=other, after=after),
        )

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
        """How a dataset differs from generation or time `one` to `other`, by default the newest;
        or, with `onto`, from a branch to that one. `rows_s`: how long to wait at most for rows to
        be compared; None compares none. `key`: columns that identify a row. `after`: the `next` of
        the page before."""
        rows = {} if rows_s is None else {"rows": True, "timeout_s": rows_s}
        query = {
            "dataset": name,
            "partition": partition,
            "key": list(key),
            "after": after,
            "limit": limit,
            **rows,
        }
        timeout_s = self._waiting(rows_s)
        if onto is None:
            return self._call(
                rest.DIFF_DATASET, timeout_s, branch=branch, one=one, other=other, **query
            )
        difference = self._call(rest.DIFF_BRANCHES, timeout_s, branch=branch, other=onto, **query)
        return cast("DataDifference", difference)

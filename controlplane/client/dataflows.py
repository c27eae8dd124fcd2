"""Blueprints and the dataflows that they are: storing, checking, planning and ending them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NotRequired, TypedDict

from controlplane.client.connection import HttpConnection
from controlplane.client.requests import match_of, refreshing
from controlplane.core import rest

if TYPE_CHECKING:
    from controlplane.core.model.answers import (
        ApplyAnswer,
        ConnectionsAnswer,
        DataflowAnswer,
        DataflowEntry,
        DeleteAnswer,
        NotifyAnswer,
        PlanAnswer,
        PlanBasis,
        ProblemDetail,
        RunBegun,
        RunProgress,
    )


class Document(TypedDict):
    """One blueprint to send: `name` is its absolute file name, `files` the texts that it names by
    relative path."""

    name: str
    text: str
    files: NotRequired[dict[str, str]]


class DataflowCalls(HttpConnection):
    """Storing, checking, planning and ending them."""

    def apply(
        self,
        documents: Iterable[Document],
        *,
        branch: str = "main",
        dry_run: bool = False,
        refresh_s: float | None = None,
        analyse_s: float | None = None,
        modes: bool = False,
        revision: int | None = None,
        key: str | None = None,
        override: bool = False,
    ) -> ApplyAnswer:
        """Store blueprints, all or none. `revision`: only if the dataflow is there now (0: not
        there yet). `refresh_s`: in a dry run, how long to wait at most for workers to list the
        sources first. `analyse_s`: likewise, for both together, where Spark is to give the columns
        of edited transforms. `modes`: a dry run also answers how inputs are kept. `override`: also
        in a protected branch, here and below; that needs `admin`."""
        query = {
            "dry_run": dry_run,
            "override": override or None,
            "modes": modes or None,
            **refreshing(refresh_s),
            **_analysing(analyse_s),
        }
        timeout_s = self._waiting(refresh_s if analyse_s is None else analyse_s)
        headers = match_of(revision) | _key(key)
        return self._call(
            rest.APPLY, timeout_s, headers, branch=branch, blueprints=list(documents), **query
        )

    def validate(self, documents: Iterable[Document]) -> list[ProblemDetail]:
        """All problems of these blueprints."""
        return self._call(rest.VALIDATE, blueprints=list(documents))["errors"]

    def connections(self, documents: Iterable[Document]) -> ConnectionsAnswer:
        """Connections of these blueprints, each as a worker tested it."""
        return self._call(rest.CONNECTIONS, blueprints=list(documents))

    def notify(self, target: str | None = None, *, branch: str = "main") -> NotifyAnswer:
        """Send a test message to each channel of a dataflow and of the installation. Answers the
        outcome of each."""
        return self._call(rest.NOTIFY, branch=branch, target=target)

    def dataflows(self, branch: str = "main") -> list[DataflowEntry]:
        return self._call(rest.DATAFLOWS, branch=branch)["items"]

    def dataflow(self, name: str, branch: str = "main") -> DataflowAnswer:
        return self._call(rest.DATAFLOW, branch=branch, dataflow=name)

    def delete(
        self,
        name: str,
        *,
        branch: str = "main",
        revision: int | None = None,
        override: bool = False,
    ) -> DeleteAnswer:
        headers = match_of(revision)
        return self._call(
            rest.DELETE_DATAFLOW,
            None,
            headers,
            branch=branch,
            dataflow=name,
            override=override or None,
        )

    def plan(
        self,
        *,
        branch: str = "main",
        dataflows: Iterable[str] = (),
        refresh_s: float | None = None,
        modes: bool = False,
    ) -> PlanAnswer:
        """The whole plan: pages are put together. `refresh_s`: how long to wait at most for workers
        to list the sources first; None has nothing listed. `modes`: also how inputs are kept."""
        query = {"branch": branch, "dataflow": list(dataflows), "limit": 1000}
        first = {"modes": modes or None, **refreshing(refresh_s)}
        page = self._call(rest.PLAN, self._waiting(refresh_s), **query, **first)
        plan = page
        looked = plan["basis"].get("looked", "") if "basis" in plan else ""
        while page["next"] is not None:
            page = self._call(rest.PLAN, looked=looked, after=page["next"], **query)
            plan["items"] += page["items"]
        return {**plan, "next": None}

    def carry_out(
        self,
        documents: Iterable[Document],
        basis: PlanBasis,
        *,
        branch: str = "main",
        key: str | None = None,
        override: bool = False,
    ) -> ApplyAnswer:
        """Store the blueprints of a plan, if all that it rests on (`basis`) is still so."""
        body = {"blueprints": list(documents), "basis": basis}
        return self._call(
            rest.CARRY_OUT, None, _key(key), branch=branch, override=override or None, **body
        )

    def begin_run(
        self, documents: Iterable[Document], *, branch: str = "main", accept_deletes: bool = False
    ) -> RunBegun:
        """Store blueprints, and have all listed that they read. A service does the rest: look with
        `run_progress`."""
        blueprints = list(documents)
        return self._call(
            rest.BEGIN_RUN, branch=branch, blueprints=blueprints, accept_deletes=accept_deletes
        )

    def run_progress(
        self, dataflows: Iterable[str] = (), *, branch: str = "main", since: int | None = None
    ) -> RunProgress:
        """Progress of these dataflows and their upstream since an event, and their states."""
        return self._call(rest.RUN_PROGRESS, branch=branch, dataflow=list(dataflows), since=since)


def _analysing(timeout_s: float | None) -> dict[str, str | int]:
    return {} if timeout_s is None else {"analyse": "true", "timeout_s": f"{timeout_s:g}"}


def _key(key: str | None) -> dict[str, str]:
    return {"Idempotency-Key": key} if key else {}

"""The Python SDK: one method per call of the REST API. Errors come as ApiError with the server's problem.

    with Headgate("http://127.0.0.1:8420", token) as headgate:
        headgate.apply([{"name": "/data/flights.yaml", "text": text}])
        headgate.status()["state"]

Does not belong here: files, terminals, processes.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType
from typing import Literal, NotRequired, Self, TypeAlias, TypedDict, cast
from urllib.parse import quote

import httpx2

from controlplane.core.model.addresses import Generation, Moment, moment_of, named, time_of
from controlplane.core.model.answers import (
    ApplyAnswer,
    AuditAnswer,
    BranchAnswer,
    BranchDifference,
    BranchesAnswer,
    ChecksAnswer,
    CollectAnswer,
    ConnectionsAnswer,
    DataDifference,
    DataflowAnswer,
    DataflowEntry,
    DataflowsAnswer,
    DatasetAnswer,
    DeleteAnswer,
    DropBranchAnswer,
    EventRecord,
    FsckAnswer,
    GenerationsAnswer,
    HistoryAnswer,
    MergeAnswer,
    NewS3KeyAnswer,
    NewTokenAnswer,
    NotifyAnswer,
    PartitionsAnswer,
    PauseAllAnswer,
    PauseAnswer,
    PlanAnswer,
    PlanBasis,
    ProblemDetail,
    ProblemDocument,
    ReadsAnswer,
    RefreshAnswer,
    RetryAnswer,
    RollbackAnswer,
    RunBegun,
    RunProgress,
    S3KeyEntry,
    S3KeysAnswer,
    SessionLinkAnswer,
    StatusAnswer,
    TargetStatus,
    TasksAnswer,
    TokenEntry,
    TokensAnswer,
    ValidateAnswer,
    WhyAnswer,
)
from controlplane.core.model.answers.datasets import PartitionWork
from controlplane.core.model.answers.explore import (
    Collapse,
    GraphAnswer,
    PartitionAnswer,
    RangesAnswer,
    SearchAnswer,
    WaveAnswer,
    WavesAnswer,
)
from controlplane.core.model.answers.feeds import FeedEntry, FeedsAnswer, OfferedFeed, OfferedFeedsAnswer
from controlplane.core.model.answers.lineage import Direction, LineageAnswer
from controlplane.core.model.answers.links import LinkEntry, LinksAnswer, NewLinkAnswer
from controlplane.core.model.answers.namespaces import NamespaceEntry, NamespacesAnswer
from controlplane.core.model.answers.profiles import ProfileAnswer, ProfileHistoryAnswer
from controlplane.core.model.answers.promotion import OpenedAnswer, PromotionAnswer
from controlplane.core.model.answers.queries import CancelAnswer, QueryAnswer
from controlplane.core.model.answers.roles import RoleEntry, RolesAnswer
from controlplane.core.model.answers.shares import (
    NewRecipientAnswer,
    RecipientEntry,
    RecipientsAnswer,
    ShareEntry,
    SharesAnswer,
)
from controlplane.core.model.answers.spark_sessions import (
    NewSparkSessionAnswer,
    SparkSessionEntry,
    SparkSessionsAnswer,
)
from controlplane.core.model.answers.trust import ExchangeAnswer, TrustAnswer, TrustEntry
from controlplane.core.model.answers.work import AttemptsAnswer, PastRunAnswer, PastRunsAnswer
from controlplane.core.model.json_values import JsonObject, JsonValue
from controlplane.core.records.formats import Compression, Format

Query: TypeAlias = Mapping[str, str | int | Sequence[str]]
Time: TypeAlias = str | datetime  # with a zone
ChangeFormat: TypeAlias = Literal["ndjson", "csv", "arrow", "parquet"]

ARROW = "application/vnd.apache.arrow.stream"
QUERY_S = 60.0
SPARK_STARTS_S = 150.0
CONNECT_TIMEOUT_S = 10.0
TIMEOUT_S = 120.0
LONG_TIMEOUT_S = 6 * 3600.0
QUIET_LIMIT_S = 60.0  # a stream of events says something at least every 15 s


class Document(TypedDict):
    """One blueprint to send: `name` is its absolute file name, `files` the texts that it names by relative path."""

    name: str
    text: str
    files: NotRequired[dict[str, str]]


class ApiError(Exception):
    """The server refused. `problem` is its problem document: type, title, status, detail, request_id, errors."""

    def __init__(self, status: int, problem: ProblemDocument) -> None:
        super().__init__(str(problem.get("detail") or problem.get("title") or f"status {status}"))
        self.status, self.problem = status, problem

    @property
    def code(self) -> str:
        return str(self.problem.get("type", "")).removeprefix("urn:headgate:")


@dataclass(frozen=True, slots=True)
class ChangeStream:
    """Changes as parts of a body, up to the generation `until`: what to ask for changes since the next time."""

    until: int
    parts: Iterator[bytes]


class Headgate:
    """A connection to one control plane. Safe to use from several threads."""

    def __init__(self, url: str, token: str, *, timeout_s: float = TIMEOUT_S) -> None:
        headers = {"Authorization": f"Bearer {token}", "User-Agent": "headgate"}
        if _is_loopback(url):
            headers["Accept-Encoding"] = "identity"  # compressing costs more there than it saves
        self._timeout_s = timeout_s
        timeout = httpx2.Timeout(timeout_s, connect=CONNECT_TIMEOUT_S)
        self._http = httpx2.Client(base_url=url, headers=headers, timeout=timeout, trust_env=not _is_loopback(url))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._http.close()

    @property
    def url(self) -> str:
        """Where the control plane was found, without a slash at the end."""
        return str(self._http.base_url).rstrip("/")

    # dataflows
    def apply(
        self,
        documents: Iterable[Document],
        *,
        branch: str = "main",
        dry_run: bool = False,
        refresh_s: float | None = None,
        analyse_s: float | None = None,
        revision: int | None = None,
        key: str | None = None,
        override: bool = False,
    ) -> ApplyAnswer:
        """Store blueprints, all or none. `revision`: only if the dataflow is there now (0: not there yet). `refresh_s`:
        of a dry run, how long to wait at most for workers to list the sources first. `analyse_s`: likewise, for both
        together, where Spark is to tell the columns of what is edited. `override`: also in a protected branch, here and
        below; that needs `admin`."""
        query = {"branch": branch, "dry_run": str(dry_run).lower(), **_refreshing(refresh_s), **_analysing(analyse_s)}
        query |= _overriding(override)
        headers, body = _match(revision) | _key(key), {"blueprints": list(documents)}
        wait_s = refresh_s if analyse_s is None else analyse_s
        return cast("ApplyAnswer", self._post("/v1/blueprints", body, query, headers, wait_s=wait_s))

    def validate(self, documents: Iterable[Document]) -> list[ProblemDetail]:
        """All problems of these blueprints."""
        found = cast("ValidateAnswer", self._post("/v1/validate", {"blueprints": list(documents)}))
        return found["errors"]

    def connections(self, documents: Iterable[Document]) -> ConnectionsAnswer:
        """What a worker finds in the way of each place that these blueprints read or write."""
        return cast("ConnectionsAnswer", self._post("/v1/connections", {"blueprints": list(documents)}))

    def notify(self, target: str | None = None, *, branch: str = "main") -> NotifyAnswer:
        """Send a test message to each channel of a dataflow and of the installation; what came of it."""
        return cast("NotifyAnswer", self._post(f"/v1/branches/{_segment(branch)}/notify", {"target": target}))

    def dataflows(self, branch: str = "main") -> list[DataflowEntry]:
        found = cast("DataflowsAnswer", self._get(f"/v1/branches/{_segment(branch)}/dataflows"))
        return found["items"]

    def dataflow(self, name: str, branch: str = "main") -> DataflowAnswer:
        return cast("DataflowAnswer", self._get(f"/v1/branches/{_segment(branch)}/dataflows/{_segment(name)}"))

    def delete(
        self, name: str, *, branch: str = "main", revision: int | None = None, override: bool = False
    ) -> DeleteAnswer:
        path = f"/v1/branches/{_segment(branch)}/dataflows/{_segment(name)}"
        query = _overriding(override)
        return cast("DeleteAnswer", _value(self._http.delete(path, headers=_match(revision), params=query)))

    def plan(
        self, *, branch: str = "main", dataflows: Iterable[str] = (), refresh_s: float | None = None
    ) -> PlanAnswer:
        """The whole plan: pages are put together. `refresh_s`: how long to wait at most for workers to list the
        sources first; None has nothing listed."""
        path = f"/v1/branches/{_segment(branch)}/plan"
        query: Query = {"dataflow": list(dataflows), "limit": 1000}
        plan = page = cast("PlanAnswer", self._get(path, {**query, **_refreshing(refresh_s)}, wait_s=refresh_s))
        while page["next"] is not None:
            page = cast("PlanAnswer", self._get(path, {**query, "after": page["next"]}))
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
        path = f"/v1/branches/{_segment(branch)}/plan"
        return cast("ApplyAnswer", self._post(path, body, _overriding(override), _key(key)))

    # branches
    def branches(self) -> list[BranchAnswer]:
        """All beside main."""
        return cast("BranchesAnswer", self._get("/v1/branches"))["items"]

    def branch(self, name: str) -> BranchAnswer:
        return cast("BranchAnswer", self._get(f"/v1/branches/{_segment(name)}"))

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
        return cast("BranchAnswer", self._post("/v1/branches", body))

    def update_branch(self, name: str) -> BranchAnswer:
        """Have a pinned branch see main as it is now."""
        return cast("BranchAnswer", self._post(f"/v1/branches/{_segment(name)}/update", {}))

    def protect_branch(self, name: str, *, protected: bool) -> BranchAnswer:
        """Whether it changes by merges alone."""
        path = f"/v1/branches/{_segment(name)}/protection"
        return cast("BranchAnswer", _value(self._http.put(path, json={"protected": protected})))

    def delete_branch(self, name: str, *, override: bool = False) -> DropBranchAnswer:
        path = f"/v1/branches/{_segment(name)}"
        return cast("DropBranchAnswer", _value(self._http.delete(path, params=_overriding(override))))

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
        return cast("MergeAnswer", self._post(f"/v1/branches/{_segment(name)}/merge", body))

    def diff_branches(self, one: str, other: str) -> BranchDifference:
        """From the first to the second. Pages are put together."""
        path = f"/v1/branches/{_segment(one)}/diff/{_segment(other)}"
        found = page = cast("BranchDifference", self._get(path))
        while page["next"] is not None:
            page = cast("BranchDifference", self._get(path, {"after": page["next"]}))
            found["components"] += page["components"]
            found["datasets"] += page["datasets"]
        return {**found, "next": None}

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
        columns that tell rows apart. `after`: the `next` of the page before."""
        query: dict[str, str | int | Sequence[str]] = {"limit": limit, **({"key": list(key)} if key else {})}
        query |= _given(partition=partition, after=after)
        query |= {} if rows_s is None else {"rows": "true", "timeout_s": f"{rows_s:g}"}
        if onto is None:
            path = f"{_dataset(branch, name)}/diff"
            query |= _given(one=one, other=other)
        else:
            path = f"/v1/branches/{_segment(branch)}/diff/{_segment(onto)}"
            query["dataset"] = name
        return cast("DataDifference", self._get(path, query, wait_s=rows_s))

    # looking
    def status(
        self,
        target: str | None = None,
        *,
        branch: str = "main",
        long: bool = False,
        refresh_s: float | None = None,
    ) -> StatusAnswer:
        """`refresh_s`: how long to wait at most for workers to list the sources first; None has nothing listed.
        `long`: also what the last commits took, and what is at it now."""
        given = _given(target=target, long="true" if long else None)
        path, query = f"/v1/branches/{_segment(branch)}/status", {**given, **_refreshing(refresh_s)}
        return cast("StatusAnswer", self._get(path, query, wait_s=refresh_s))

    def dataset(self, name: str, *, branch: str = "main") -> DatasetAnswer:
        """Of what a write component makes, see `target`."""
        return cast("DatasetAnswer", self._get(_dataset(branch, name)))

    def target(self, name: str, *, branch: str = "main") -> TargetStatus:
        """How a copy elsewhere stands."""
        return cast("TargetStatus", self._get(_dataset(branch, name)))

    # which state is meant: by an address (`shop.totals@12`) in place of the name, by `generation`, or by `at`, a time
    def partitions(
        self,
        name: str,
        *,
        branch: str = "main",
        after: str | None = None,
        limit: int = 100,
        generation: int | None = None,
        at: Time | None = None,
        prefix: str | None = None,
        state: PartitionWork | None = None,
        changed_in: int | None = None,
    ) -> PartitionsAnswer:
        """`prefix`: keys that begin so. `state`: those with work to do, or with a failed task. `changed_in`: what a
        generation added, changed or removed."""
        path, query = _at(branch, name, generation, at)
        asked = _given(after=after, limit=limit, prefix=prefix, state=state, changed_in=changed_in)
        return cast("PartitionsAnswer", self._get(f"{path}/partitions", {**query, **asked}))

    def history(
        self,
        name: str,
        *,
        branch: str = "main",
        before: int | None = None,
        limit: int = 100,
        generation: int | None = None,
        at: Time | None = None,
    ) -> HistoryAnswer:
        """Generations, newest first, up to the one that is meant."""
        path, query = _at(branch, name, generation, at)
        return cast("HistoryAnswer", self._get(f"{path}/history", {**query, **_given(before=before, limit=limit)}))

    def generations(
        self, dataflow: str, *, branch: str = "main", at: Time | None = None, consistent: bool = False
    ) -> GenerationsAnswer:
        """Which generation each dataset has, or had at a time. `consistent`: those made of the same sources."""
        name, moment = time_of(dataflow, at)
        query = _given(at=None if moment is None else str(moment), consistent="true" if consistent else None)
        path = f"/v1/branches/{_segment(branch)}/dataflows/{_segment(name)}/generations"
        return cast("GenerationsAnswer", self._get(path, query))

    def checks(
        self, name: str, *, branch: str = "main", generation: int | None = None, at: Time | None = None
    ) -> ChecksAnswer:
        path, query = _at(branch, name, generation, at)
        return cast("ChecksAnswer", self._get(f"{path}/checks", query))

    def why(
        self,
        name: str,
        partition: str | None = None,
        *,
        branch: str = "main",
        shows_all: bool = False,
        generation: int | None = None,
        at: Time | None = None,
    ) -> WhyAnswer:
        """The causes of a dataset or partition. `shows_all`: with inputs that did not change."""
        path, query = _at(branch, name, generation, at)
        asked = _given(partition=partition, all="true" if shows_all else None)
        return cast("WhyAnswer", self._get(f"{path}/why", {**query, **asked}))

    def lineage(
        self,
        name: str,
        *,
        column: str | None = None,
        partition: str | None = None,
        generation: int | None = None,
        at: Time | None = None,
        direction: Direction = "upstream",
        object: str | None = None,
        branch: str = "main",
        limit: int | None = None,
    ) -> LineageAnswer:
        """Where columns and partitions come from; `downstream`, what depends on them. `object`: the partitions that
        rows of a source object of a read component are in."""
        path, query = _at(branch, name, generation, at)
        asked = _given(column=column, partition=partition, object=object, limit=limit)
        return cast("LineageAnswer", self._get(f"{path}/lineage", {**query, **asked, "direction": direction}))

    def attempts(self, name: str, *, branch: str = "main", limit: int = 100) -> AttemptsAnswer:
        """Attempts at a dataset that are over, the last ones first."""
        query = _given(state="ended", limit=limit)
        return cast("AttemptsAnswer", self._get(f"{_dataset(branch, name)}/tasks", query))

    def runs(self, target: str | None = None, *, branch: str = "main", limit: int = 20) -> PastRunsAnswer:
        """The last runs that reached the target, the last ones first."""
        path = f"/v1/branches/{_segment(branch)}/runs"
        return cast("PastRunsAnswer", self._get(path, _given(target=target, limit=limit)))

    def past_run(self, id: str, *, branch: str = "main") -> PastRunAnswer:
        """One run, with its steps and its attempts."""
        return cast("PastRunAnswer", self._get(f"/v1/branches/{_segment(branch)}/runs/{_segment(id)}"))

    # looking through
    def graph(
        self,
        dataflow: str | None = None,
        *,
        around: str | None = None,
        up: int | None = None,
        down: int | None = None,
        collapse: Collapse | None = None,
        branch: str = "main",
        limit: int | None = None,
    ) -> GraphAnswer:
        """Datasets, how they read each other, and how each stands: of a dataflow, of what is near `around`, or of all.
        `collapse`: those of one dataflow or tag as one."""
        query = _given(dataflow=dataflow, around=around, up=up, down=down, collapse=collapse, limit=limit)
        return cast("GraphAnswer", self._get(f"/v1/branches/{_segment(branch)}/graph", query))

    def search(self, query: str, *, branch: str = "main", limit: int | None = None) -> SearchAnswer:
        """Datasets with all of these words, the best first. `col:`, `tag:`, `owner:`, `state:` say where one is."""
        return cast("SearchAnswer", self._get("/v1/search", _given(q=query, branch=branch, limit=limit)))

    def waves(
        self,
        dataflow: str | None = None,
        *,
        branch: str = "main",
        before: str | None = None,
        limit: int | None = None,
    ) -> WavesAnswer:
        """Commits that one thing led to, the last ones first. `before`: the `next` of the page before."""
        query = _given(dataflow=dataflow, before=before, limit=limit)
        return cast("WavesAnswer", self._get(f"/v1/branches/{_segment(branch)}/waves", query))

    def wave(self, id: str, *, branch: str = "main") -> WaveAnswer:
        """One wave, with its commits and what it left alone."""
        return cast("WaveAnswer", self._get(f"/v1/branches/{_segment(branch)}/waves/{_segment(id)}"))

    def ranges(
        self,
        name: str,
        *,
        generation: int | None = None,
        at: Time | None = None,
        against: int | Time | None = None,
        after: str | None = None,
        last: str | None = None,
        cells: int | None = None,
        branch: str = "main",
    ) -> RangesAnswer:
        """Partitions as ranges of their keys. `against`: a generation or time to compare with. `after` and `last`: of a
        range, to look into it."""
        path, query = _at(branch, name, generation, at)
        other = str(moment_of(against)) if isinstance(against, datetime) else against
        bounds = {"from": after, "to": last}  # `from` is a word of Python's
        asked = _given(against=other, cells=cells, **bounds)
        return cast("RangesAnswer", self._get(f"{path}/ranges", {**query, **asked}))

    def partition(
        self, name: str, key: str, *, branch: str = "main", generation: int | None = None, at: Time | None = None
    ) -> PartitionAnswer:
        """One partition: files, attempt, what it is made of, and what is made of it."""
        path, query = _at(branch, name, generation, at)
        return cast("PartitionAnswer", self._get(f"{path}/partition", {**query, "key": key}))

    def profile(
        self,
        name: str,
        *,
        partition: str | None = None,
        column: str | None = None,
        generation: int | None = None,
        at: Time | None = None,
        branch: str = "main",
    ) -> ProfileAnswer:
        """What each column of one generation, or of one partition, is like (docs/profiles.md). `is_partial`: ask again
        for the rest."""
        path, query = _at(branch, name, generation, at)
        asked = _given(partition=partition, column=column)
        return cast("ProfileAnswer", self._get(f"{path}/profile", {**query, **asked}))

    def profile_history(self, name: str, *, column: str | None = None, branch: str = "main") -> ProfileHistoryAnswer:
        """What each column was like in the last generations, oldest first, and where it moved."""
        path, _ = _at(branch, name, None, None)
        return cast("ProfileHistoryAnswer", self._get(f"{path}/profile/history", _given(column=column)))

    @contextmanager
    def records(
        self,
        name: str,
        *,
        branch: str = "main",
        format: Format = "json",
        partition: str | None = None,
        generation: int | None = None,
        at: Time | None = None,
        columns: Sequence[str] = (),
        where: str | None = None,
        offset: int | None = None,
        limit: int | None = None,
        compression: Compression | None = None,
    ) -> Iterator[Iterator[bytes]]:
        """Records of one committed generation as parts of a body. `columns`: these, in this order; `where`: a condition
        on rows, in SQL; `compression`: of Arrow and Parquet, within (docs/records.md)."""
        path, query = _at(branch, name, generation, at)
        asked: dict[str, str | int | Sequence[str]] = {**query, **_given(format=format, partition=partition)}
        asked |= _given(where=where, offset=offset, limit=limit, compression=compression)
        asked |= {"columns": _list(columns)} if columns else {}
        with self._stream(f"{path}/records", asked) as response:
            yield response.iter_bytes()

    @contextmanager
    def changes(
        self,
        name: str,
        *,
        since: int | str | datetime,
        until: int | str | datetime | None = None,
        branch: str = "main",
        format: ChangeFormat = "ndjson",
        columns: Sequence[str] = (),
        where: str | None = None,
        compression: Compression | None = None,
    ) -> Iterator[ChangeStream]:
        """Rows that were added and removed since a generation or time (0: from nothing), up to another one, by default
        the newest. Its `until` is what to send as `since` next. `columns`: rows are compared by these, in this order;
        `where`: a condition on rows, in SQL."""
        asked: dict[str, str | int | Sequence[str]] = {"since": _point(since)}
        asked |= _given(where=where, compression=compression)
        asked |= {"columns": _list(columns)} if columns else {}
        asked |= {} if until is None else {"until": _point(until)}
        with self._stream(f"{_dataset(branch, name)}/changes.{format}", asked) as response:
            yield ChangeStream(int(response.headers["X-Generation"]), response.iter_bytes())

    @contextmanager
    def _stream(self, path: str, query: Query) -> Iterator[httpx2.Response]:
        with self._http.stream("GET", path, params=query) as response:
            if response.status_code >= 400:
                response.read()
                _value(response)
            yield response

    # signed links
    def create_link(
        self,
        name: str,
        *,
        branch: str = "main",
        format: Format = "csv",
        compression: Compression | None = None,
        partition: str | None = None,
        generation: int | None = None,
        at: Time | None = None,
        columns: Sequence[str] = (),
        where: str | None = None,
        limit: int | None = None,
        ttl_s: float | None = None,
    ) -> NewLinkAnswer:
        """A link that reads one dataset without a token, with its address, which is shown once."""
        found = named(name, generation, at)
        body: dict[str, object] = {
            "dataset": found.name,
            "branch": branch,
            "format": format,
            "compression": compression,
            "partition": partition,
            "at": None if found.point is None else str(found.point),
            "columns": list(columns),
            "where": where,
            "limit": limit,
        }
        body |= {} if ttl_s is None else {"ttl_s": ttl_s}
        return cast("NewLinkAnswer", self._post("/v1/links", body))

    def links(self) -> list[LinkEntry]:
        """All links, without their addresses."""
        return cast("LinksAnswer", self._get("/v1/links"))["items"]

    def revoke_link(self, link: str) -> None:
        """End a link now, by its id."""
        _value(self._http.delete(f"/v1/links/{_segment(link)}"))

    # queries
    def query(
        self,
        sql: str,
        *,
        branch: str = "main",
        parameters: Mapping[str, JsonValue] | Sequence[JsonValue] | None = None,
        limit: int = 1000,
        at: Time | None = None,
        timeout_s: float = QUERY_S,
        id: str | None = None,
        engine: Literal["duckdb", "spark"] = "duckdb",
    ) -> QueryAnswer:
        """Rows of a SELECT in the SQL of its engine over `dataflow.dataset`, also `@12`, at a time and in other
        branches, at most `limit`. Pages are put together. `parameters`: for `$name`, or in order for `?`; Spark's are
        `:name`. `at`: the time that is meant of tables that name none. `id`: 8 to 64 hexadecimal digits, to cancel it
        by."""
        path = f"/v1/branches/{_segment(branch)}/query"
        body = _query(sql, parameters, limit, at=at, timeout_s=timeout_s, id=id, engine=engine)
        found = page = cast("QueryAnswer", self._post(path, body, wait_s=timeout_s))
        while page["next"] is not None:
            page = cast("QueryAnswer", self._get(f"{path}/{found['result']}", {"after": page["next"]}))
            found["rows"] += page["rows"]
        return {**found, "next": None}

    def query_arrow(
        self,
        sql: str,
        *,
        branch: str = "main",
        parameters: Mapping[str, JsonValue] | Sequence[JsonValue] | None = None,
        limit: int | None = None,
        at: Time | None = None,
        timeout_s: float = QUERY_S,
        id: str | None = None,
        engine: Literal["duckdb", "spark"] = "duckdb",
    ) -> Generator[bytes, None, None]:
        """The same, all rows as parts of an Arrow stream, as they come. Closing it early ends the query."""
        path = f"/v1/branches/{_segment(branch)}/query"
        body = _query(sql, parameters, limit, at=at, timeout_s=timeout_s, id=id, engine=engine)
        timeout = self._timeout(timeout_s)
        with self._http.stream("POST", path, json=body, headers={"Accept": ARROW}, timeout=timeout) as response:
            if response.status_code >= 400:
                response.read()
                _value(response)
            yield from response.iter_bytes()

    def promote(
        self,
        sql: str,
        dataset: str,
        *,
        branch: str = "main",
        analyse: bool = False,
        compare: Literal["duckdb", "spark"] | None = None,
        timeout_s: float = QUERY_S,
    ) -> PromotionAnswer:
        """A proposed blueprint with the query as the transform that makes `dataset`. Nothing is stored. `analyse`: with
        the columns that Spark says it would have. `compare`: the engine whose rows of the query are compared with those
        of Spark. Either waits for at most `timeout_s`."""
        path = f"/v1/branches/{_segment(branch)}/query/promote"
        body: JsonObject = {"sql": sql, "dataset": dataset, "analyse": analyse, "compare": compare}
        return cast("PromotionAnswer", self._post(path, {**body, "timeout_s": timeout_s}, wait_s=2 * timeout_s))

    def query_of(self, dataset: str, *, branch: str = "main") -> OpenedAnswer:
        """A transform's SQL as a query over its inputs' present states."""
        return cast("OpenedAnswer", self._get(f"{_dataset(branch, dataset)}/query"))

    def cancel_query(self, id: str, *, branch: str = "main") -> CancelAnswer:
        """End a query of one's own that runs."""
        path = f"/v1/branches/{_segment(branch)}/query/{_segment(id)}"
        return cast("CancelAnswer", _value(self._http.delete(path)))

    # Spark sessions
    def open_spark_session(
        self,
        datasets: Sequence[str] = (),
        *,
        branch: str = "main",
        at: Time | None = None,
        ttl_s: float = 3_600.0,
    ) -> NewSparkSessionAnswer:
        """A Spark Connect server of one's own, with datasets as views: `shop.orders`, `shop.orders@12`, `shop.*`, or
        all of them. `at`: the time that is meant of names without a point. `ttl_s`: when it ends at the latest."""
        body: JsonObject = {"datasets": list(datasets), "at": at.isoformat() if isinstance(at, datetime) else at}
        path = f"/v1/branches/{_segment(branch)}/spark-sessions"
        return cast("NewSparkSessionAnswer", self._post(path, {**body, "ttl_s": ttl_s}, wait_s=SPARK_STARTS_S))

    def spark_sessions(self) -> list[SparkSessionEntry]:
        """One's own that are open; all of them for who administers."""
        return cast("SparkSessionsAnswer", self._get("/v1/spark-sessions"))["items"]

    def end_spark_session(self, id: str) -> None:
        """Now, whatever it does."""
        _value(self._http.delete(f"/v1/spark-sessions/{_segment(id)}"))

    # Delta Sharing
    def create_share(self, name: str) -> ShareEntry:
        """A share without datasets."""
        return cast("ShareEntry", self._post("/v1/shares", {"name": name}))

    def shares(self) -> list[ShareEntry]:
        """All shares, with their tables and recipients."""
        return cast("SharesAnswer", self._get("/v1/shares"))["items"]

    def share(self, name: str) -> ShareEntry:
        """One share."""
        return cast("ShareEntry", self._get(f"/v1/shares/{_segment(name)}"))

    def delete_share(self, name: str) -> None:
        """End a share now, for all its recipients."""
        _value(self._http.delete(f"/v1/shares/{_segment(name)}"))

    def add_to_share(
        self, share: str, dataset: str, *, alias: str | None = None, branch: str = "main", history: bool = False
    ) -> ShareEntry:
        """Give a dataset. `alias`: `schema.table` for recipients; `history`: with its earlier generations."""
        body: dict[str, object] = {"dataset": dataset, "as": alias, "branch": branch, "history": history}
        return cast("ShareEntry", self._post(f"/v1/shares/{_segment(share)}/tables", body))

    def remove_from_share(self, share: str, table: str) -> ShareEntry:
        """Take a dataset out now, by the name that recipients know, `schema.table`."""
        path = f"/v1/shares/{_segment(share)}/tables/{_segment(table)}"
        return cast("ShareEntry", _value(self._http.delete(path)))

    def create_recipient(self, name: str, shares: Sequence[str], *, ttl_s: float | None = None) -> NewRecipientAnswer:
        """A recipient of shares, with its profile, which is shown once."""
        body: dict[str, object] = {"name": name, "shares": list(shares)}
        body |= {} if ttl_s is None else {"ttl_s": ttl_s}
        return cast("NewRecipientAnswer", self._post("/v1/recipients", body))

    def recipients(self) -> list[RecipientEntry]:
        """All recipients, without their profiles."""
        return cast("RecipientsAnswer", self._get("/v1/recipients"))["items"]

    def revoke_recipient(self, recipient: str) -> None:
        """End a recipient now, by its id or name."""
        _value(self._http.delete(f"/v1/recipients/{_segment(recipient)}"))

    # feeds
    def create_feed(self, name: str, dataset: str, *, columns: str | None = None) -> FeedEntry:
        """Offer a dataset of main that has data. `columns`: the contract as DDL; all that it has by default."""
        return cast("FeedEntry", self._post("/v1/feeds", {"name": name, "dataset": dataset, "columns": columns}))

    def feeds(self) -> list[FeedEntry]:
        """All feeds of this namespace, with their grants and readers."""
        return cast("FeedsAnswer", self._get("/v1/feeds"))["items"]

    def feed(self, name: str) -> FeedEntry:
        """One feed."""
        return cast("FeedEntry", self._get(f"/v1/feeds/{_segment(name)}"))

    def change_feed(self, name: str, *, columns: str | None = None) -> FeedEntry:
        """Promise more: further columns, or wider types. `columns`: the contract as DDL; all that the dataset has now
        by default."""
        answer = self._http.put(f"/v1/feeds/{_segment(name)}", json={"columns": columns})
        return cast("FeedEntry", _value(answer))

    def delete_feed(self, name: str) -> None:
        """Delete a feed without readers."""
        _value(self._http.delete(f"/v1/feeds/{_segment(name)}"))

    def grant_feed(self, name: str, namespace: str, *, dataflows: str = "*") -> FeedEntry:
        """Let dataflows of a namespace read a feed: one by its name, or those that a pattern fits."""
        body = {"namespace": namespace, "dataflows": dataflows}
        return cast("FeedEntry", self._post(f"/v1/feeds/{_segment(name)}/grants", body))

    def revoke_feed(self, name: str, namespace: str, *, dataflows: str | None = None) -> FeedEntry:
        """Take the grants of a namespace away, or the one with this pattern. Readers keep what they have."""
        path = f"/v1/feeds/{_segment(name)}/grants/{_segment(namespace)}"
        params = {} if dataflows is None else {"dataflows": dataflows}
        return cast("FeedEntry", _value(self._http.delete(path, params=params)))

    def offered_feeds(self) -> list[OfferedFeed]:
        """Feeds of all namespaces that dataflows of this one may read."""
        return cast("OfferedFeedsAnswer", self._get("/v1/offers"))["items"]

    # operating
    def refresh(
        self,
        target: str | None = None,
        *,
        branch: str = "main",
        accept_deletes: bool = False,
        force: bool = False,
        schema: bool = False,
        wait_s: float = 0.0,
    ) -> RefreshAnswer:
        """`wait_s`: how long to wait at most for what is found, which is under `changes` then."""
        body: dict[str, str | bool | float | None]
        body = {"target": target, "accept_deletes": accept_deletes, "force": force}
        body |= {"schema": True} if schema else {}  # which an earlier service does not know
        body |= {"wait_s": wait_s} if wait_s else {}  # which an earlier service does not know
        path = f"/v1/branches/{_segment(branch)}/refresh"
        return cast("RefreshAnswer", self._post(path, body, wait_s=wait_s))

    def retry(
        self,
        target: str | None = None,
        *,
        branch: str = "main",
        tasks: Sequence[str] | None = None,
        partition: str | None = None,
    ) -> RetryAnswer:
        """Try failed work again; with `tasks`, only what still wants one of these; with `partition`, only this one of
        the dataset that `target` names, and nothing upstream of it."""
        body: dict[str, object] = {"target": target} | ({} if tasks is None else {"tasks": list(tasks)})
        body |= {} if partition is None else {"partition": partition}
        return cast("RetryAnswer", self._post(f"/v1/branches/{_segment(branch)}/retry", body))

    def begin_run(
        self, documents: Iterable[Document], *, branch: str = "main", accept_deletes: bool = False
    ) -> RunBegun:
        """Store blueprints, and have all listed that they read. A service does the rest: look with `run_progress`."""
        body = {"blueprints": list(documents), "accept_deletes": accept_deletes}
        return cast("RunBegun", self._post(f"/v1/branches/{_segment(branch)}/run", body))

    def run_progress(
        self, dataflows: Iterable[str] = (), *, branch: str = "main", since: int | None = None
    ) -> RunProgress:
        """What was done of these dataflows and their upstream since an event, and how they stand."""
        query: dict[str, str | int | Sequence[str]] = {"dataflow": list(dataflows)}
        query |= {} if since is None else {"since": since}
        return cast("RunProgress", self._get(f"/v1/branches/{_segment(branch)}/run", query))

    def pause(self, target: str | None = None, *, branch: str = "main") -> PauseAnswer | PauseAllAnswer:
        return cast(
            "PauseAnswer | PauseAllAnswer", self._post(f"/v1/branches/{_segment(branch)}/pause", {"target": target})
        )

    def resume(self, target: str | None = None, *, branch: str = "main") -> PauseAnswer | PauseAllAnswer:
        return cast(
            "PauseAnswer | PauseAllAnswer", self._post(f"/v1/branches/{_segment(branch)}/resume", {"target": target})
        )

    def rollback(
        self,
        target: str,
        *,
        generation: int | None = None,
        at: str | None = None,
        reason: str = "",
        force: bool = False,
        branch: str = "main",
        override: bool = False,
    ) -> RollbackAnswer:
        """Go back to a generation of a dataset, or to what a dataset or dataflow had at a time, until `resume`."""
        body = {"target": target, "generation": generation, "at": at, "reason": reason, "force": force}
        return cast(
            "RollbackAnswer", self._post(f"/v1/branches/{_segment(branch)}/rollback", body, _overriding(override))
        )

    def revert(
        self,
        dataflow: str,
        to: int,
        *,
        branch: str = "main",
        dry_run: bool = False,
        revision: int | None = None,
        override: bool = False,
    ) -> ApplyAnswer:
        """Store the text of revision `to` again. `revision`: only if the dataflow is there now."""
        path = f"/v1/branches/{_segment(branch)}/dataflows/{_segment(dataflow)}/revert"
        body, query = {"to": to, "dry_run": dry_run}, _overriding(override)
        return cast("ApplyAnswer", self._post(path, body, query, _match(revision)))

    def events(
        self, after: int | None = None, *, branch: str = "main", follow: bool = True
    ) -> Iterator[EventRecord | None]:
        """Events of a branch, and those of no branch, after an id (None: from now on), in order; None in between shows
        that the connection lives."""
        query = _given(after=after, branch=branch, follow=str(follow).lower())
        timeout = httpx2.Timeout(QUIET_LIMIT_S, connect=CONNECT_TIMEOUT_S)
        with self._http.stream("GET", "/v1/events", params=query, timeout=timeout) as response:
            if response.status_code >= 400:
                response.read()
                _value(response)
            for line in response.iter_lines():
                if line.startswith("data: "):
                    yield json.loads(line.removeprefix("data: "))
                elif line.startswith(":"):
                    yield None

    # looking after the database
    def gc(self, *, packs: bool = False) -> CollectAnswer:
        """Collect what nothing refers to any more; how many rows of each kind went. With `packs`, all packs are given
        up, too, and made again in time."""
        return cast("CollectAnswer", self._at_length("/v1/gc", {"packs": True} if packs else None))

    def fsck(
        self, *, files: bool = False, contents: bool = False, dataset: str | None = None, repair: bool = False
    ) -> FsckAnswer:
        """What is not as it should be, as `findings`; with `files`, files in the lake are looked for, too. `contents`:
        all rows are read, or those of one `dataset`, and compared with what was written. `repair`: what is lost, or
        found damaged, is made again; of that tells `repaired`."""
        body: dict[str, bool | str | None] = {"files": files, "repair": repair}
        if contents:
            body |= {"contents": True, "dataset": dataset}
        return cast("FsckAnswer", self._at_length("/v1/fsck", body))

    # tokens and health
    def create_token(
        self,
        name: str,
        scopes: Iterable[str] = ("admin",),
        *,
        ttl_s: float | None = None,
        dataflows: Iterable[str] = (),
        datasets: Iterable[str] = (),
        branches: Iterable[str] = (),
        namespace: str | None = None,
    ) -> NewTokenAnswer:
        """Make a token; its text is under `token`, in this answer only. `scopes`: roles (docs/rights.md), or `driver`.
        `namespace`: another one than ours. The others are patterns of names that it is narrowed to."""
        within = {"dataflows": list(dataflows), "datasets": list(datasets), "branches": list(branches)}
        body: JsonObject = {"name": name, "scopes": list(scopes), "ttl_s": ttl_s, "within": cast("JsonObject", within)}
        if namespace is not None:
            body["namespace"] = namespace
        return cast("NewTokenAnswer", self._post("/v1/tokens", body))

    def create_namespace(self, name: str) -> NamespaceEntry:
        """An empty namespace. For administrators of the installation, as all about namespaces."""
        return cast("NamespaceEntry", self._post("/v1/namespaces", {"name": name}))

    def namespaces(self) -> list[NamespaceEntry]:
        """All namespaces, `default` first."""
        return cast("NamespacesAnswer", self._get("/v1/namespaces"))["items"]

    def namespace(self, name: str) -> NamespaceEntry:
        """One namespace."""
        return cast("NamespaceEntry", self._get(f"/v1/namespaces/{_segment(name)}"))

    def delete_namespace(self, name: str) -> None:
        """End a namespace without dataflows."""
        _value(self._http.delete(f"/v1/namespaces/{_segment(name)}"))

    def tokens(self) -> list[TokenEntry]:
        found = cast("TokensAnswer", self._get("/v1/tokens"))
        return found["items"]

    def exchange(self, identity: str, namespace: str = "default") -> ExchangeAnswer:
        """A short-lived token for the identity token (JWT) of a CI job, by a rule of trust of the namespace. Its own
        token is not looked at."""
        body: JsonObject = {"token": identity, "namespace": namespace}
        return cast("ExchangeAnswer", self._post("/v1/tokens/exchange", body))

    def create_trust(
        self,
        name: str,
        use: Literal["login", "exchange"],
        issuer: str,
        claims: Mapping[str, Sequence[str]],
        scopes: Sequence[str],
        *,
        audience: str = "",
        ttl_s: float | None = None,
        dataflows: Sequence[str] = (),
        datasets: Sequence[str] = (),
        branches: Sequence[str] = (),
    ) -> TrustEntry:
        """A rule: identity tokens of this issuer whose claims fit open tokens (`exchange`) or sessions (`login`)."""
        within: JsonObject = {"dataflows": [*dataflows], "datasets": [*datasets], "branches": [*branches]}
        body: JsonObject = {"name": name, "use": use, "issuer": issuer, "audience": audience, "scopes": [*scopes]}
        body |= {"claims": {claim: [*patterns] for claim, patterns in claims.items()}, "within": within, "ttl_s": ttl_s}
        return cast("TrustEntry", self._post("/v1/trust", body))

    def trust(self) -> list[TrustEntry]:
        """All rules of trust in issuers."""
        return cast("TrustAnswer", self._get("/v1/trust"))["items"]

    def delete_trust(self, name: str) -> None:
        """End a rule now, and all tokens and sessions that it opened."""
        _value(self._http.delete(f"/v1/trust/{_segment(name)}"))

    # roles of one's own
    def create_role(
        self,
        name: str,
        permissions: Sequence[str],
        *,
        dataflows: Sequence[str] = (),
        datasets: Sequence[str] = (),
        branches: Sequence[str] = (),
    ) -> RoleEntry:
        """A role, which tokens and rules of trust name."""
        body = _role_body(permissions, dataflows, datasets, branches)
        return cast("RoleEntry", self._post("/v1/roles", {"name": name, **body}))

    def change_role(
        self,
        name: str,
        permissions: Sequence[str],
        *,
        dataflows: Sequence[str] = (),
        datasets: Sequence[str] = (),
        branches: Sequence[str] = (),
    ) -> RoleEntry:
        """All that a role allows from now on, for all who have it."""
        body = _role_body(permissions, dataflows, datasets, branches)
        return cast("RoleEntry", _value(self._http.put(f"/v1/roles/{_segment(name)}", json=body)))

    def roles(self) -> list[RoleEntry]:
        """All roles, those that are built in first."""
        return cast("RolesAnswer", self._get("/v1/roles"))["items"]

    def role(self, name: str) -> RoleEntry:
        return cast("RoleEntry", self._get(f"/v1/roles/{_segment(name)}"))

    def delete_role(self, name: str) -> None:
        """Delete a role without holders."""
        _value(self._http.delete(f"/v1/roles/{_segment(name)}"))

    def revoke_token(self, token: str) -> None:
        """End the token with this id, or else the live one with this name."""
        _value(self._http.delete(f"/v1/tokens/{_segment(token)}"))

    def create_s3_key(
        self, name: str, read: Iterable[str] = ("main",), *, ttl_s: float | None = None
    ) -> NewS3KeyAnswer:
        """Make an S3 key that reads these scopes (docs/s3.md); its secret is in this answer only."""
        body = {"name": name, "read": list(read), "ttl_s": ttl_s}
        made = cast("NewS3KeyAnswer", self._post("/v1/s3/keys", body))
        return {**made, "endpoint": self.url}  # where the caller found the service

    def s3_keys(self) -> list[S3KeyEntry]:
        found = cast("S3KeysAnswer", self._get("/v1/s3/keys"))
        return found["items"]

    def session_link(self) -> SessionLinkAnswer:
        """A link that opens one session of the pages with this client's token, once, within a minute."""
        return cast("SessionLinkAnswer", self._post("/v1/session-links", {}))

    def revoke_s3_key(self, key: str) -> None:
        """End the S3 key with this access key, or else the live one with this name."""
        _value(self._http.delete(f"/v1/s3/keys/{_segment(key)}"))

    def tasks(self, name: str, *, branch: str = "main", after: int = 0, limit: int = 100) -> TasksAnswer:
        return cast("TasksAnswer", self._get(f"{_dataset(branch, name)}/tasks", {"after": after, "limit": limit}))

    def log(self, attempt: str, *, tail: int = 200) -> str:
        """The last lines that the driver of an attempt said."""
        return self._text(f"/v1/attempts/{_segment(attempt)}/log", tail)

    def dataset_log(self, name: str, *, branch: str = "main", tail: int = 200) -> str:
        """The last lines that the driver of a dataset's newest attempt said."""
        return self._text(f"{_dataset(branch, name)}/log", tail)

    def driver_log(self, driver: str, *, tail: int = 200) -> str:
        """The last lines that a driver or worker said."""
        return self._text(f"/v1/drivers/{_segment(driver)}/log", tail)

    def _text(self, path: str, tail: int) -> str:
        response = self._http.get(path, params={"tail": tail})
        return response.text if response.status_code < 400 else str(_value(response))

    def audit(
        self,
        limit: int = 100,
        *,
        branch: str | None = "main",
        since: str | None = None,
        until: str | None = None,
    ) -> AuditAnswer:
        """Changes of a branch and of none, or of all with None, the last ones first. `since`, `until`: times with their
        zones; what was before `until`."""
        of = {"all_branches": "true"} if branch is None else {"branch": branch}
        return cast("AuditAnswer", self._get("/v1/audit", {**of, **_given(limit=limit, since=since, until=until)}))

    def audit_reads(
        self, limit: int = 100, *, branch: str | None = None, since: str | None = None, until: str | None = None
    ) -> ReadsAnswer:
        """Who read rows of which dataset, as `audit`."""
        query = _given(limit=limit, branch=branch, since=since, until=until)
        return cast("ReadsAnswer", self._get("/v1/audit/reads", query))

    def require_alive(self) -> None:
        """Raises an error of httpx2 where nobody answers; what is answered does not matter."""
        self._http.get("/livez")

    def is_ready(self) -> bool:
        try:
            return self._http.get("/readyz").status_code == 200
        except httpx2.TransportError:
            return False

    def _get(self, path: str, query: Query | None = None, *, wait_s: float | None = None) -> JsonObject:
        return _value(self._http.get(path, params=query, timeout=self._timeout(wait_s)))

    def _timeout(self, wait_s: float | None) -> httpx2.Timeout:
        """Of a request that may wait so long for workers."""
        return httpx2.Timeout(self._timeout_s + (wait_s or 0.0), connect=CONNECT_TIMEOUT_S)

    def _at_length(self, path: str, body: Mapping[str, object] | None) -> JsonObject:
        """For what takes as long as the database is large."""
        timeout = httpx2.Timeout(LONG_TIMEOUT_S, connect=CONNECT_TIMEOUT_S)
        return _value(self._http.post(path, json=body, timeout=timeout))

    def _post(
        self,
        path: str,
        body: Mapping[str, object],
        query: Query | None = None,
        headers: Mapping[str, str] | None = None,
        wait_s: float | None = None,
    ) -> JsonObject:
        timeout = self._timeout(wait_s)
        return _value(self._http.post(path, json=body, params=query, headers=headers, timeout=timeout))


def _value(response: httpx2.Response) -> JsonObject:
    if response.status_code == 204:
        return {}
    found = _json(response)
    if response.is_success and isinstance(found, dict):
        return found
    raise ApiError(response.status_code, _problem(found) or _unexpected(response))


def _json(response: httpx2.Response) -> JsonValue:
    try:
        return cast("JsonValue", response.json())
    except ValueError:
        return None


def _problem(found: JsonValue) -> ProblemDocument | None:
    if isinstance(found, dict) and "type" in found:
        return cast("ProblemDocument", found)
    return None


def _unexpected(response: httpx2.Response) -> ProblemDocument:
    """What is told where something else than our server answered, such as what redirects to another address."""
    where = f", with a way to {response.headers['location']}" if "location" in response.headers else ""
    detail = f"{response.url.host} answered {response.status_code}{where}, and not as Headgate does"
    return {"type": "urn:headgate:unexpected-answer", "status": response.status_code, "detail": detail, "errors": []}


def _list(columns: Sequence[str]) -> str:
    """Names in backquotes, which may hold any character."""
    return ",".join("`{}`".format(name.replace("`", "``")) for name in columns)


def _point(meant: int | str | datetime) -> str:
    """A generation, or a time."""
    return meant.isoformat() if isinstance(meant, datetime) else str(meant)


def _given(**query: str | int | None) -> Query:
    return {k: v for k, v in query.items() if v is not None}


def _overriding(override: bool) -> dict[str, str]:
    return {"override": "true"} if override else {}


def _query(
    sql: str,
    parameters: Mapping[str, JsonValue] | Sequence[JsonValue] | None,
    limit: int | None,
    *,
    at: Time | None,
    timeout_s: float,
    id: str | None,
    engine: str,
) -> JsonObject:
    given = dict(parameters) if isinstance(parameters, Mapping) else list(parameters or ())
    moment = at.isoformat() if isinstance(at, datetime) else at
    asked: JsonObject = {"sql": sql, "parameters": given or None, "limit": limit, "at": moment, "engine": engine}
    return {**asked, "timeout_s": timeout_s, "id": id}


def _refreshing(timeout_s: float | None) -> dict[str, str | int]:
    return {} if timeout_s is None else {"refresh": "true", "timeout_s": f"{timeout_s:g}"}


def _analysing(timeout_s: float | None) -> dict[str, str | int]:
    return {} if timeout_s is None else {"analyse": "true", "timeout_s": f"{timeout_s:g}"}


def _match(revision: int | None) -> dict[str, str]:
    if revision is None:
        return {}
    return {"If-Match": f'"{revision}"'} if revision else {"If-None-Match": "*"}


def _key(key: str | None) -> dict[str, str]:
    return {"Idempotency-Key": key} if key else {}


def _dataset(branch: str, name: str) -> str:
    return f"/v1/branches/{_segment(branch)}/datasets/{_segment(name)}"


def _at(branch: str, name: str, generation: int | None, at: Time | None) -> tuple[str, Query]:
    """The path of a dataset that an address may name, and which state of it is meant."""
    found = named(name, generation, at)
    match found.point:
        case Generation(number):
            return _dataset(branch, found.name), {"generation": number}
        case Moment() as moment:
            return _dataset(branch, found.name), {"at": str(moment)}
        case None:
            return _dataset(branch, found.name), {}


def _role_body(
    permissions: Sequence[str], dataflows: Sequence[str], datasets: Sequence[str], branches: Sequence[str]
) -> JsonObject:
    within: JsonObject = {"dataflows": [*dataflows], "datasets": [*datasets], "branches": [*branches]}
    return {"permissions": [*permissions], "within": within}


def _segment(text: str) -> str:
    """One segment of a path, whatever the text holds."""
    return quote(text, safe="").replace(".", "%2E") if text in (".", "..") else quote(text, safe="")


def _is_loopback(url: str) -> bool:
    """A server on this machine is never asked through a proxy."""
    return httpx2.URL(url).host in ("127.0.0.1", "localhost", "::1")

"""Dataflows and datasets as lazy values: the rows of one state, and the facts about them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Self, cast

from controlplane.cli import (
    diff_views,
    explore_views,
    lineage_views,
    profiles,
    source_views,
    views,
    why_views,
)
from controlplane.cli.diff import COMPARED_S
from controlplane.cli.options import LISTED_S
from controlplane.client import Headgate, Time
from controlplane.core.model.addresses import Generation, Point, moment_of, named, point_of
from controlplane.core.model.answers import DataflowStatus, DatasetAnswer
from headgate import answer_cells, html, picture, why_chain
from headgate.answer_cells import AnswerCells
from headgate.errors import Refused, as_refused, refused
from headgate.lazy import Lazy
from headgate.page_links import PageLinks
from headgate.shown import Shown

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True, repr=False)
class Dataset(Lazy):
    """A dataset in one state, the newest where no other is meant. Each method that narrows gives
    another value.

    Columns and conditions are those of docs/records.md.
    """

    client: Headgate
    name: str
    branch_name: str = "main"
    point: Point | None = None
    conditions: tuple[str, ...] = ()
    chosen: tuple[str, ...] = ()
    most: int | None = None
    has_service: bool = False  # whose pages are there after this process

    def __repr__(self) -> str:
        return f"<dataset {self.label}>"

    @property
    def label(self) -> str:
        place = "" if self.branch_name == "main" else f" in {self.branch_name}"
        return f"{self.address}{place}"

    @property
    def address(self) -> str:
        """`dataflow.dataset`, with `@12` or `@TIME` where an earlier state is meant."""
        return self.name if self.point is None else f"{self.name}@{self.point}"

    # which rows
    def at(self, state: int | str | datetime) -> Self:
        """The same of a generation (`12`, `"@12"`) or a time with its zone
        (`"2026-11-24T07:00Z"`)."""
        with as_refused():
            return replace(self, point=_point(state))

    def branch(self, name: str) -> Self:
        """The same in another branch."""
        return replace(self, branch_name=name)

    def where(self, condition: str) -> Self:
        """Only rows of which the condition is true, and those before it."""
        return replace(self, conditions=(*self.conditions, condition))

    def columns(self, *names: str) -> Self:
        """Only these columns, in this order; none means all."""
        return replace(self, chosen=names)

    def limit(self, rows: int) -> Self:
        """At most so many rows."""
        return replace(self, most=rows)

    @property
    def condition(self) -> str | None:
        """All conditions as one."""
        if len(self.conditions) < 2:
            return next(iter(self.conditions), None)
        return " AND ".join(f"({part})" for part in self.conditions)

    def _body(self, limit: int | None) -> AbstractContextManager[Iterator[bytes]]:
        bounds = [bound for bound in (self.most, limit) if bound is not None]
        return self.client.records(
            self.address,
            branch=self.branch_name,
            format="arrow",
            columns=self.chosen,
            where=self.condition,
            limit=min(bounds) if bounds else None,
        )

    def to_spark(self, spark: SparkSession, *, s3: bool = False) -> DataFrame:
        """The rows for Spark, which reads files in place: nothing goes through this process.

        Spark reads the published Delta table where that is the state that is meant; it needs
        Delta's jars. With `s3` it reads the S3 view (docs/s3.md), which has every state; `fs.s3a`
        of the session must name its endpoint and a key.
        """
        frame = self._of_s3(spark) if s3 else self._of_table(spark)
        for condition in self.conditions:
            frame = frame.where(condition)
        if self.chosen:
            frame = frame.select(*("`{}`".format(name.replace("`", "``")) for name in self.chosen))
        return frame if self.most is None else frame.limit(self.most)

    def _of_table(self, spark: SparkSession) -> DataFrame:
        status, generation = self.status(), self._generation()
        if status["table"] is None or status["published_generation"] != generation:
            published = status["published_generation"] or "none"
            words = f"generation {generation} of {self.label} is not the published table (published: {published})"
            raise refused("not-published", f"{words}; use to_spark(spark, s3=True), or to_arrow()")
        table = status["table"]
        return spark.read.format("delta").load(table.replace("s3://", "s3a://", 1))

    def _generation(self) -> int:
        if isinstance(self.point, Generation):
            return self.point.number
        with as_refused():
            items = self.client.history(self.address, branch=self.branch_name, limit=1)["items"]
        return items[0]["generation"] if items else 0

    def _of_s3(self, spark: SparkSession) -> DataFrame:
        return spark.read.parquet(f"s3a://{self.s3_path}/*.parquet")

    @property
    def s3_path(self) -> str:
        """Bucket and folder of the state in the S3 view (docs/s3.md). A time is looked up: it is a
        generation there. Raises Refused where there is no such dataset."""
        dataflow, _, dataset = self.name.partition(".")
        at = "" if self.point is None else f"@{self._generation()}"
        return f"{self.status()['namespace']}/{self.branch_name}/{dataflow}/{dataset}{at}"

    # facts about it
    def status(self) -> DatasetAnswer:
        """How the newest state stands, with its columns, modes and place."""
        with as_refused():
            return self.client.dataset(self.name, branch=self.branch_name)

    def why(self, partition: str | None = None, *, shows_all: bool = False) -> Shown:
        """Why the dataset, or one partition, is as it is."""
        with as_refused():
            answer = self.client.why(
                self.address, partition, branch=self.branch_name, shows_all=shows_all
            )
        view = why_views.why(answer, shows_all=shows_all)
        written = why_chain.why_html(answer, self._links, shows_all=shows_all)
        return Shown(answer, view, written=written)

    def lineage(
        self, column: str | None = None, *, partition: str | None = None, downstream: bool = False
    ) -> Shown:
        """Where columns and partitions come from; `downstream`, what depends on them."""
        with as_refused():
            answer = self.client.lineage(
                self.address,
                column=column,
                partition=partition,
                direction="downstream" if downstream else "upstream",
                branch=self.branch_name,
            )
        return Shown(answer, lineage_views.lineage(answer), cells=AnswerCells(self._links))

    def history(self, limit: int = 20) -> Shown:
        """Generations, newest first, up to the one that is meant."""
        with as_refused():
            answer = self.client.history(self.address, branch=self.branch_name, limit=limit)
        cells = AnswerCells(self._links, self.name)
        return Shown(answer, views.history(answer), cells=cells)

    def profile(self, column: str | None = None, *, partition: str | None = None) -> Shown:
        """NULLs, distinct values, extremes and histogram of each column; of `column` alone also its
        frequent values (docs/profiles.md)."""
        with as_refused():
            answer = self.client.profile(
                self.address, partition=partition, column=column, branch=self.branch_name
            )
        return Shown(answer, profiles.profile_view(answer, is_one=column is not None))

    def diff(
        self,
        before: int | str | datetime,
        after: int | str | datetime | None = None,
        *,
        rows: bool = False,
        key: Sequence[str] = (),
        partition: str | None = None,
    ) -> Shown:
        """How the dataset differs between two generations or times: columns, partitions and, with
        `rows`, rows. `after`: the state of this value by default. `key`: columns that pair rows;
        implies `rows`."""
        newest = self.point if after is None else _point(after)
        with as_refused():
            answer = self.client.diff_dataset(
                self.name,
                str(_point(before)),
                None if newest is None else str(newest),
                branch=self.branch_name,
                partition=partition,
                rows_s=COMPARED_S if rows or key else None,
                key=key,
            )
        return Shown(answer, diff_views.dataset(answer))

    def refresh(
        self, *, accept_deletes: bool = False, force: bool = False, wait_s: float = LISTED_S
    ) -> Shown:
        """Check its sources for new files. `wait_s`: how long to wait at most for the workers of a
        service. `force`: also recompute the dataset. `accept_deletes`: confirm the loss of files.
        """
        with as_refused():
            answer = self.client.refresh(
                self.name,
                branch=self.branch_name,
                accept_deletes=accept_deletes,
                force=force,
                wait_s=wait_s if self.has_service else 0.0,
            )
        return Shown(answer, source_views.refreshed(answer), cells=AnswerCells(self._links))

    def checks(self) -> Shown:
        """The expectations of the rows, and their results."""
        with as_refused():
            answer = self.client.checks(self.address, branch=self.branch_name)
        return Shown(answer, views.checks(answer))

    @property
    def _links(self) -> PageLinks:
        return _links_of(self.client, self.branch_name, has_service=self.has_service)

    def _html_parts(self) -> list[str]:
        try:
            status = self.status()
        except Refused:  # the rows show why
            return super(Dataset, self)._html_parts()
        name = self._links.around_dataset(self.name, html.text(self.label))
        state = answer_cells.state(status["state"])
        head = f"<b>{name}</b> {state}{html.text(_standing(status))}"
        return [f"<div>{head}</div>", *super(Dataset, self)._html_parts()]


@dataclass(frozen=True, slots=True, repr=False)
class Flow:
    """A dataflow. `flow["dataset"]` is one of its datasets."""

    client: Headgate
    name: str
    branch_name: str = "main"
    has_service: bool = False

    def __repr__(self) -> str:
        place = "" if self.branch_name == "main" else f" in {self.branch_name}"
        return f"<dataflow {self.name}{place}>"

    def __getitem__(self, dataset: str) -> Dataset:
        """By its name, which may have an address (`"late@12"`). Raises Refused where there is no
        such dataset."""
        with as_refused():
            address = named(f"{self.name}.{dataset}")
        names = self._names()
        if address.name.partition(".")[2] not in names:
            raise refused(
                "not-found",
                f"{self.name} has no dataset {dataset!r}; it has {', '.join(names) or 'none'}",
            )
        return self._dataset(address.name, address.point)

    def __iter__(self) -> Iterator[Dataset]:
        return (self._dataset(f"{self.name}.{name}") for name in self._names())

    def _dataset(self, name: str, point: Point | None = None) -> Dataset:
        return Dataset(
            self.client, name, self.branch_name, point=point, has_service=self.has_service
        )

    def _ipython_key_completions_(self) -> list[str]:
        return self._names()

    def _names(self) -> list[str]:
        return [dataset["name"].partition(".")[2] for dataset in self._standing()["datasets"]]

    def _standing(self) -> DataflowStatus:
        return cast("DataflowStatus", self.status().answer["dataflows"][0])

    def branch(self, name: str) -> Self:
        """The same in another branch."""
        return replace(self, branch_name=name)

    def status(self) -> Shown:
        """How its datasets and targets stand."""
        with as_refused():
            answer = self.client.status(self.name, branch=self.branch_name)
        view = views.status(answer, shows_leader=False)
        return Shown(answer, view, self.name, cells=AnswerCells(self._links))

    def graph(self) -> Shown:
        """Its datasets, and how they read each other."""
        with as_refused():
            answer = self.client.graph(self.name, branch=self.branch_name)
        drawn = picture.graph(answer, self._links)
        cells = AnswerCells(self._links)
        return Shown(answer, explore_views.graph(answer), self.name, drawn, cells)

    def waves(self) -> Shown:
        """The effects of late files and edits, the last ones first."""
        with as_refused():
            answer = self.client.waves(self.name, branch=self.branch_name)
        cells = AnswerCells(self._links)
        return Shown(answer, explore_views.waves(answer), self.name, cells=cells)

    def pause(self) -> Shown:
        """Start no more work of it. Committed rows stay readable."""
        return self._operated(self.client.pause)

    def resume(self) -> Shown:
        """End a pause, and the hold after a rollback."""
        return self._operated(self.client.resume)

    def retry(self) -> Shown:
        """Try failed work again."""
        return self._operated(self.client.retry)

    def _operated(self, call: Callable[..., Mapping[str, Any]]) -> Shown:
        with as_refused():
            answer = call(self.name, branch=self.branch_name)
        return Shown(answer, views.fields(answer))

    @property
    def _links(self) -> PageLinks:
        return _links_of(self.client, self.branch_name, has_service=self.has_service)

    def _repr_html_(self) -> str:
        """Its graph, and a table of its datasets. The table is folded where the graph has the same
        datasets."""
        try:
            status, drawn = self.status(), self.graph().picture
        except Refused as error:
            return html.error_html(error)
        flow = status["dataflows"][0]
        name, state = self._links.of_dataflow(self.name), answer_cells.state(flow["state"])
        head = f"<div><b>{name}</b> {state}, revision {flow['revision']}</div>"
        table = "".join(html.view_parts(status.view, AnswerCells(self._links).cell))
        return html.notebook_html([head, drawn, html.folded("Datasets", table) if drawn else table])


def _point(state: int | str | Time) -> Point:
    match state:
        case datetime():
            return moment_of(state)
        case _:
            return point_of(str(state).removeprefix("@"))


def _links_of(client: Headgate, branch: str, *, has_service: bool) -> PageLinks:
    return PageLinks(client.url if has_service else None, branch)


def _standing(status: DatasetAnswer) -> str:
    if not status["generation"]:
        return ", no rows yet"
    parts = f"{status['partitions']:,} partitions, {status['rows']:,} rows"
    return f", generation {status['generation']}: {parts}"

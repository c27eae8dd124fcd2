"""One connection to a control plane: found as the command line finds it, and the way to everything
else."""

from __future__ import annotations

import time
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from controlplane import settings
from controlplane.__main__ import Bootstrap
from controlplane.cli import explore_views, once, service_target, sources, views
from controlplane.cli.session import Service, Session
from controlplane.cli.sources import BlueprintText
from controlplane.client import Document, Headgate, Time
from controlplane.core.blueprint import file_references
from controlplane.core.model.addresses import named
from controlplane.core.model.json_values import JsonValue
from headgate import blueprint_values, html
from headgate.answer_cells import AnswerCells
from headgate.dataflow_list import DataflowList
from headgate.dataset import Dataset, Flow
from headgate.errors import Refused, as_refused, refused
from headgate.page_links import PageLinks
from headgate.plans import Plan
from headgate.query import Query
from headgate.shown import Shown

if TYPE_CHECKING:
    from os import PathLike

LOOK_S = 60.0  # for workers to list sources and Spark to analyse an edit, before a plan is made


def connect(
    home: str | PathLike[str] | None = None,
    *,
    url: str | None = None,
    token: str | None = None,
    branch: str = "main",
) -> Connection:
    """A connection, found as `headgate` finds it: the service of HEADGATE_URL (with
    HEADGATE_TOKEN), else the process that holds the home, else an API of our own on that home,
    which computes nothing. `url` and `token` name a service in place of all these. `branch`: the
    branch that requests read and change.

    Raises Refused where the service has no token for us, or does not answer.
    """
    ends = ExitStack()
    session = Session(Bootstrap())
    place = None if home is None else Path(home)
    with as_refused():
        if url is not None:
            client = ends.enter_context(Headgate(url, token or settings.read(place).token or ""))
            session.service = Service(url)
        else:
            client = ends.enter_context(session.connect(place))
        client.require_alive()
    connection = Connection(client, session, place, branch, ends)
    Connection.last = weakref.ref(connection)
    return connection


class Connection:
    """A control plane as one branch shows it. `client` has a method for each call of the API
    (`controlplane.client`).

    `hg["flights"]` is a dataflow, `hg["flights.late"]` and `hg["flights"]["late"]` are a dataset,
    also `@12` or a time.
    """

    last: weakref.ref[Connection] | None = None  # made by `connect`: cells of notebooks take it

    def __init__(
        self,
        client: Headgate,
        session: Session,
        home: Path | None,
        branch: str,
        ends: ExitStack | None,
    ) -> None:
        self.client, self.branch_name = client, branch
        self._session, self._home = session, home
        self._ends = ends
        # Of a branch: keeps the connection that it is a view of
        self._parent: Connection | None = None
        if ends is not None:
            self._closing = weakref.finalize(self, ends.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the connection, and the API of our own where there is one. Values that it opened
        before cannot be read any longer."""
        if self._ends is not None:
            self._closing()

    def __repr__(self) -> str:
        return f"<headgate at {self._place}, branch {self.branch_name}>"

    @property
    def _place(self) -> str:
        service = self._session.service
        return f"the home {settings.read(self._home).home}" if service is None else service.url

    def branch(self, name: str) -> Connection:
        """The same in another branch."""
        connection = Connection(self.client, self._session, self._home, name, None)
        connection._parent = self
        return connection

    # --- what there is

    # The text decides which of the two it is: `flow` and `dataset` have types
    def __getitem__(self, name: str) -> Any:
        """A Flow (`"flights"`) or a Dataset (`"flights.late"`). Raises Refused where there is none
        of that name."""
        flow, is_dataset, dataset = name.partition(".")
        flow_object = self.flow(flow)
        return flow_object[dataset] if is_dataset else flow_object

    def flow(self, name: str) -> Flow:
        """A dataflow. Raises Refused."""
        with as_refused():
            self.client.status(name, branch=self.branch_name)
        return self._flow(name)

    def _flow(self, name: str) -> Flow:
        return Flow(self.client, name, self.branch_name, has_service=self._has_service)

    def dataset(self, name: str) -> Dataset:
        """A dataset by its name or address, without a look whether it is there."""
        with as_refused():
            address = named(name)
        return Dataset(
            self.client,
            address.name,
            self.branch_name,
            point=address.point,
            has_service=self._has_service,
        )

    @property
    def flows(self) -> DataflowList:
        """All dataflows: their names, and a table that shows how they stand."""
        return DataflowList(self.status())

    def __iter__(self) -> Iterator[Flow]:
        return map(self._flow, self.flows)

    @property
    def _has_service(self) -> bool:
        return self._session.service is not None

    @property
    def _cells(self) -> AnswerCells:
        url = self.client.url if self._has_service else None
        return AnswerCells(PageLinks(url, self.branch_name))

    def _ipython_key_completions_(self) -> list[str]:
        flows = self.status().answer["dataflows"]
        return [
            *(flow["name"] for flow in flows),
            *(dataset["name"] for flow in flows for dataset in flow["datasets"]),
        ]

    def status(self) -> Shown:
        """How all dataflows stand."""
        with as_refused():
            answer = self.client.status(branch=self.branch_name)
        view = views.status(answer, shows_leader=False)
        return Shown(answer, view, repr(self)[1:-1], cells=self._cells)

    def search(self, words: str) -> Shown:
        """Datasets with all of these words; `col:`, `tag:`, `owner:`, `state:` say where one is."""
        with as_refused():
            answer = self.client.search(words, branch=self.branch_name)
        return Shown(answer, explore_views.search(answer), cells=self._cells)

    def _repr_html_(self) -> str:
        try:
            return self.status()._repr_html_()
        except Refused as error:
            return html.error_html(error)

    def query(
        self,
        sql: str,
        parameters: Mapping[str, JsonValue] | None = None,
        *,
        at: Time | None = None,
        limit: int | None = None,
    ) -> Query:
        """A SELECT in DuckDB's SQL over `dataflow.dataset`, as a lazy value. `parameters`: for
        `$name` in it."""
        return Query(self.client, sql, parameters, self.branch_name, at, limit)

    # edits
    def plan(
        self,
        *blueprints: str | PathLike[str],
        refresh: bool | None = None,
        spark: bool | None = None,
        set: Mapping[str, JsonValue] | None = None,  # as `--set` of other tools
    ) -> Plan:
        """The plan of applying blueprints; nothing is stored. A text with more than one line is a
        blueprint, its relative paths are relative to the working folder; anything else is a file.

        `set`: other values in the only blueprint, `{"delays.params.late_minutes": 30}`. Its file
        stays as it is.

        `refresh`: workers list the sources first; `spark`: Spark analyses the edited transforms.
        Both are so where a service is there to do it. Raises Refused with every problem.
        """
        refresh_s = LOOK_S if (self._has_service if refresh is None else refresh) else None
        analyse_s = LOOK_S if (self._has_service if spark is None else spark) else None
        texts, names = self._texts(blueprints)
        if set is not None:
            texts = [_with_values(texts, set)]
        documents: list[Document] = sources.as_documents(texts)
        with as_refused(names):
            answer = self.client.apply(
                documents,
                branch=self.branch_name,
                dry_run=True,
                refresh_s=refresh_s,
                analyse_s=analyse_s,
            )
        return Plan(
            self.client,
            self._session,
            documents,
            answer["plan"],
            branch_name=self.branch_name,
            names=names,
            cells=self._cells,
        )

    def run(self, *blueprints: str | PathLike[str]) -> Shown:
        """Make these dataflows up to date, as `headgate run` does: through the service of the home,
        else in this process. Raises Refused where blueprints are refused; the answer lists failed
        tasks."""
        texts, names = self._texts(blueprints)
        started = time.monotonic()
        with as_refused(names):
            request = once.RunRequest(texts, self.branch_name)
            summary = service_target.make(
                self._session, settings.read(self._home), request, lambda _: None, since=started
            )
        return Shown(summary, views.summary(summary), cells=self._cells)

    def _texts(
        self, blueprints: Sequence[str | PathLike[str]]
    ) -> tuple[list[BlueprintText], dict[str, str]]:
        session = replace(self._session, names={})
        texts = list[BlueprintText]()
        with as_refused(session.names):
            for each in blueprints:
                is_text = isinstance(each, str) and "\n" in each
                texts += (
                    [_of_text(str(each), len(texts))] if is_text else session.load([Path(each)])
                )
        return texts, session.names


def _with_values(texts: Sequence[BlueprintText], values: Mapping[str, JsonValue]) -> BlueprintText:
    """The only blueprint with other values. Raises Refused."""
    if len(texts) != 1:
        raise refused("not-found", f"`set` takes one blueprint, not {len(texts)}")
    (blueprint,) = texts
    try:
        return replace(blueprint, text=blueprint_values.with_values(blueprint.text, values))
    except blueprint_values.UnknownPath as error:
        raise refused("not-found", f"{blueprint.path}: {error}") from None


def _of_text(text: str, number: int) -> BlueprintText:
    """The blueprint of a cell: relative paths are relative to the working folder."""
    path = Path(f"cell-{number + 1}.yaml")
    files = {name: Path(name).read_text() for name in file_references(text) if Path(name).is_file()}
    return BlueprintText(path, text, files)

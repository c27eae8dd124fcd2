"""`headgate test --like`: a test from committed rows, reached through the API."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, cast

from controlplane.cli import sources
from controlplane.cli.example_yaml import block
from controlplane.client import ApiError, Headgate
from controlplane.core.errors import NotFound
from dataplane.contract.schemas import Json, Schema

if TYPE_CHECKING:
    from controlplane.cli.session import Session
    from controlplane.core.compile.nodes import Desired
    from controlplane.operations.desired.blueprints import SentBlueprint

PAGE_ROWS = 1_000  # of partitions


@dataclass(frozen=True, slots=True)
class ExampleRequest:
    """The requested test. `files`: blueprints in place of the stored ones."""

    key: str
    dataset: str
    files: Sequence[Path]
    home: Path | None
    branch: str
    rows: int


def test_like(session: Session, request: ExampleRequest) -> str:
    """The `tests:` block."""
    from controlplane.cli.example_runner import example_runner
    from controlplane.services.examples import making

    texts = sources.as_sources(session.load(request.files))
    with session.connect(request.home) as client:
        desired = _desired(client, request, texts)
        task = making.task_like(
            desired, request.dataset, request.key, OverApi(client, request.branch), request.rows
        )
    if task.node.is_volatile:
        _say("the transform is volatile: run the test twice before you keep it")
    if task.node.component.tests:
        _say(f"{task.node.component.name} has tests already: paste from `- name:` on")
    with example_runner(session, request.home) as runner:
        return block(making.made(desired, task, runner, request.rows, time.time()))


def _say(text: str) -> None:
    sys.stderr.write(f"headgate: {text}\n")


def _desired(client: Headgate, request: ExampleRequest, texts: Sequence[SentBlueprint]) -> Desired:
    from controlplane.operations.desired.compile_edit import compile_texts

    stored = [
        client.dataflow(flow_entry["name"], request.branch)
        for flow_entry in client.dataflows(request.branch)
    ]
    desired = compile_texts(texts, stored).require()
    flow = request.dataset.partition(".")[0]
    if flow not in desired.texts and any(flow_entry["name"] == flow for flow_entry in stored):
        raise NotFound(
            f"the dataflow {flow} does not compile any more: `headgate status {flow}` says why"
        )
    return desired


@dataclass(slots=True)
class OverApi:
    """Committed rows, read through the API. Remembers answers."""

    client: Headgate
    branch: str
    schemas: dict[str, Schema | None] = field(default_factory=dict)
    usable: dict[tuple[str, str], bool] = field(default_factory=dict)

    def schema(self, dataset: str) -> Schema | None:
        if dataset not in self.schemas:
            self.schemas[dataset] = self._schema(dataset)
        return self.schemas[dataset]

    def _schema(self, dataset: str) -> Schema | None:
        try:
            schema = self.client.dataset(dataset, branch=self.branch)["schema"]
        except ApiError as e:
            if e.status == 404:  # a component of a file that is not stored
                return None
            raise
        return cast("Schema | None", schema)

    def has(self, dataset: str, partition: str) -> bool:
        address = dataset, partition
        if address not in self.usable:
            self.usable[address] = self.schema(dataset) is not None and self._is_there(
                dataset, partition
            )
        return self.usable[address]

    def _is_there(self, dataset: str, partition: str) -> bool:
        try:
            with self.client.records(dataset, branch=self.branch, partition=partition, limit=0):
                return True
        except ApiError as e:
            if e.status == 404:
                return False
            raise

    def rows(self, dataset: str, partition: str | None) -> Iterator[dict[str, Json]]:
        """One after the other as they come: an object stands on each line."""
        with self.client.records(dataset, branch=self.branch, partition=partition) as parts:
            for line in _lines(parts):
                text = line.strip().rstrip(b",")
                if text.startswith(b"{"):
                    yield json.loads(text)

    def before(self, dataset: str, partition: str) -> str | None:
        nearest, after = None, None
        while True:
            page = self.client.partitions(dataset, branch=self.branch, after=after, limit=PAGE_ROWS)
            for partition_entry in page["items"]:
                if partition_entry["partition"] >= partition:
                    return nearest
                nearest = partition_entry["partition"]
            after = page["next"]
            if after is None:
                return nearest

    def some(self, dataset: str) -> list[str]:
        if self.schema(dataset) is None:
            return []
        page = self.client.partitions(dataset, branch=self.branch, limit=3)
        return [partition["partition"] for partition in page["items"]]


def _lines(parts: Iterator[bytes]) -> Iterator[bytes]:
    rest = b""
    for part in parts:
        *complete, rest = (rest + part).split(b"\n")
        yield from complete
    yield rest

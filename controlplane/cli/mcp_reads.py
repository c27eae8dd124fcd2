"""Tools of assistants that change nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field

from controlplane.cli.activity import ATTEMPT
from controlplane.cli.mcp_answers import MOST_BYTES, MOST_CHARACTERS
from controlplane.cli.mcp_edits import EditedBlueprint, documents_of, without_basis
from controlplane.client import Headgate

Branch = Annotated[str, Field(description="The branch to look at.")]
Dataset = Annotated[str, Field(description="DATAFLOW.DATASET, also @GENERATION or @TIME.")]
Target = Annotated[str | None, Field(description="DATAFLOW or DATAFLOW.DATASET; all if left out.")]
Partition = Annotated[str | None, Field(description="The key of one partition.")]
Rows = Annotated[int, Field(ge=1, le=500, description="Rows at most.")]
Limit = Annotated[int, Field(ge=1, le=200, description="Entries at most.")]
Seconds = Annotated[float, Field(ge=1, le=120, description="Time limit.")]
Listing = Annotated[
    float, Field(ge=0, le=120, description="Seconds to list sources first; 0: as last listed.")
]


class ReadTools:
    """The tools, by the client of one service."""

    def __init__(self, client: Headgate) -> None:
        self._client = client

    def status(self, target: Target = None, branch: Branch = "main") -> object:
        """State of dataflows and datasets, with errors of what failed."""
        return self._client.status(target, branch=branch)

    def why(self, dataset: Dataset, partition: Partition = None, branch: Branch = "main") -> object:
        """Why a dataset or partition is as it is, down to the edit or source file."""
        return self._client.why(dataset, partition, branch=branch)

    def blueprint(self, dataflow: str, branch: Branch = "main") -> object:
        """The text of a dataflow, with the files that it names. `file` is its name in edits."""
        return self._client.dataflow(dataflow, branch)

    def plan(
        self,
        blueprints: Annotated[list[EditedBlueprint], Field(description="None: what is stored.")],
        listing_s: Listing = 0,
        branch: Branch = "main",
    ) -> object:
        """What edited blueprints would compute and cost. Changes nothing."""
        refresh_s = listing_s or None
        if not blueprints:
            return without_basis(self._client.plan(branch=branch, refresh_s=refresh_s))
        applied = self._client.apply(
            documents_of(blueprints), branch=branch, dry_run=True, refresh_s=refresh_s
        )
        return without_basis(applied["plan"])

    def preview(
        self,
        dataset: Dataset,
        rows: Rows = 20,
        partition: Partition = None,
        branch: Branch = "main",
    ) -> object:
        """Some rows of a dataset."""
        with self._client.records(
            dataset, format="ndjson", branch=branch, partition=partition, limit=rows
        ) as parts:
            lines, is_whole = _lines(parts)
        return {"rows": [json.loads(line) for line in lines], "more_bytes": not is_whole}

    def query(
        self, sql: str, rows: Rows = 100, timeout_s: Seconds = 60, branch: Branch = "main"
    ) -> object:
        """Rows of a SELECT in DuckDB's SQL over tables DATAFLOW.DATASET. Reads only."""
        return self._client.query(sql, branch=branch, limit=rows, timeout_s=timeout_s)

    def lineage(
        self,
        dataset: Dataset,
        column: str | None = None,
        partition: Partition = None,
        direction: Literal["upstream", "downstream"] = "upstream",
        branch: Branch = "main",
    ) -> object:
        """Where a dataset's columns come from, or what depends on them."""
        return self._client.lineage(
            dataset, column=column, partition=partition, direction=direction, branch=branch
        )

    def diff(
        self,
        branch: Branch = "main",
        dataset: Annotated[str | None, Field(description="DATAFLOW.DATASET; all if none.")] = None,
        onto: Annotated[str | None, Field(description="Branch to compare with.")] = None,
        before: Annotated[str | None, Field(description="Generation or time.")] = None,
        after: Annotated[str | None, Field(description="Generation or time.")] = None,
        rows_s: Annotated[
            float | None, Field(ge=1, le=120, description="Also compare rows, for so long.")
        ] = None,
    ) -> object:
        """How two branches differ, or two generations of a dataset, or a dataset in two branches."""
        if dataset is None:
            return self._client.diff_branches(branch, onto or "main")
        return self._client.diff_dataset(
            dataset, before, after, branch=branch, onto=onto, rows_s=rows_s
        )

    def search(self, text: str, limit: Limit = 20, branch: Branch = "main") -> object:
        """Datasets by name, description, col:, tag:, owner: or state:."""
        return self._client.search(text, branch=branch, limit=limit)

    def history(self, dataset: Dataset, limit: Limit = 20, branch: Branch = "main") -> object:
        """Generations of a dataset, newest first."""
        return self._client.history(dataset, branch=branch, limit=limit)

    def branches(self) -> object:
        """Branches beside main."""
        return self._client.branches()

    def logs(
        self,
        subject: Annotated[str, Field(description="DATAFLOW.DATASET, or the id of an attempt.")],
        lines: Limit = 100,
        branch: Branch = "main",
    ) -> object:
        """The last lines of a driver's log."""
        if ATTEMPT.fullmatch(subject):
            text = self._client.log(subject, tail=lines)
        else:
            text = self._client.dataset_log(subject, branch=branch, tail=lines)
        return {"log": text[-MOST_CHARACTERS:], "characters": len(text)}


def _lines(parts: Iterator[bytes]) -> tuple[list[bytes], bool]:
    """Whole lines of the first MOST_BYTES or so, and whether these are all."""
    body = bytearray()
    for part in parts:
        body += part
        if len(body) > MOST_BYTES:
            return bytes(body[:MOST_BYTES]).splitlines()[:-1], False
    return bytes(body).splitlines(), True

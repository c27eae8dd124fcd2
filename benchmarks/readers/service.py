"""A service on a home that real Spark computed: `shop.orders` has every type, three generations and
a branch.

Does not belong here: readers, and how they are compared.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq

from controlplane.client import Headgate
from dataplane.fragments.arrow import arrow_schema
from tests.e2e.conftest import closing
from tests.e2e.served import Served, second_of_now
from tests.e2e.workspace import Workspace
from tests.rows_of_types import SCHEMA, all_columns

State = Literal["newest", "generation", "time", "branch"]
STATES: tuple[State, ...] = ("newest", "generation", "time", "branch")
BLUEPRINT = """\
dataflow: shop
components:
  raw:
    read: {connector: files, path: data/*.parquet, format: parquet}
  orders:
    transform: {sql: SELECT * FROM raw WHERE k > 0}
"""
EDIT = ("k > 0", "k <> 1")  # in the branch
CORRECTED = "corrected"
Row = dict[str, Any]


@dataclass(frozen=True)
class Place:
    """Addresses of a running service, and the rows of `shop.orders` in each state.

    `time`: in UTC, when generation 1 was the newest. Generation 2 is the state `generation`.
    """

    url: str
    token: str
    access_key: str
    secret_key: str
    profile: Path
    lake: Path
    time: str
    rows: Mapping[State, Sequence[Row]]
    api: Headgate

    @property
    def moment(self) -> str:
        """The last millisecond of `time`, as ISO 8601 has it."""
        return datetime.fromisoformat(self.time).strftime("%Y-%m-%dT%H:%M:%S.999Z")

    def expected(self, state: State) -> pa.Table:
        return table_of(self.rows[state])


def table_of(rows: Sequence[Row]) -> pa.Table:
    return pa.Table.from_pylist(list(rows), arrow_schema(SCHEMA))


@contextmanager
def running(folder: Path) -> Iterator[Place]:
    """It ends with the block."""
    first, third, empty = all_columns()
    corrected = {**first, "text": CORRECTED}
    with closing(Workspace(folder)) as workspace:
        _put(workspace, "a", [first, empty])
        workspace.write("shop.yaml", BLUEPRINT)
        with workspace.serving() as service, service.client() as api:
            home = ("--wait", "--home", workspace.home)
            workspace.call("apply", "shop.yaml", *home)
            served = Served(workspace, service, api, "shop", reads=1)
            time = second_of_now()
            _put(workspace, "b", [third])
            served.refresh()
            _put(workspace, "a", [corrected, empty])
            served.refresh()
            api.create_branch("dev", publish=True)
            workspace.edit("shop.yaml", EDIT)
            workspace.call("apply", "shop.yaml", "--branch", "dev", *home)
            key = api.create_s3_key("readers", ["*"])
            yield Place(
                url=service.url,
                token=service.token,
                access_key=key["access_key"],
                secret_key=str(key["secret_key"]),
                profile=_shared(api, folder),
                lake=workspace.lake,
                time=time,
                rows={
                    "newest": [corrected, empty, third],
                    "generation": [first, empty, third],
                    "time": [first, empty],
                    "branch": [empty, third],
                },
                api=api,
            )


def _put(workspace: Workspace, name: str, rows: Sequence[Row]) -> None:
    path = workspace.write(f"data/{name}.parquet", b"")
    pq.write_table(table_of(rows), path)


def _shared(api: Headgate, folder: Path) -> Path:
    """The profile of a recipient of both branches."""
    api.create_share("sales")
    api.add_to_share("sales", "shop.orders", history=True)
    api.add_to_share("sales", "shop.orders", alias="shop.orders_dev", branch="dev")
    profile = folder / "partner.share"
    profile.write_text(json.dumps(api.create_recipient("partner", ["sales"])["profile"]))
    return profile

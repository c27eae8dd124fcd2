"""A share of orders, a recipient of it, and what it reads, as a client of the protocol does.

Does not belong here: what is expected of it.
"""

from __future__ import annotations

import io
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import httpx2
import pyarrow.parquet as pq

from tests.unit.records.conftest import order
from tests.unit.records.world import ORDERS, RecordWorld, Served, served

Rows = Counter[tuple[int, str | None]]
TABLE = "/shares/sales/schemas/shop/tables/orders"


@dataclass(frozen=True)
class Sharing:
    """`token`: of a recipient of the share `sales`."""

    place: Served
    token: str
    endpoint: str

    @property
    def world(self) -> RecordWorld:
        return self.place.world

    def get(self, path: str, *, token: str | None = None, **headers: str) -> httpx2.Response:
        return self.send("GET", path, token=token, **headers)

    def send(
        self, method: str, path: str, body: Any = None, *, token: str | None = None, **headers: str
    ) -> httpx2.Response:
        sent = {"Authorization": f"Bearer {token or self.token}", **headers}
        with httpx2.Client(trust_env=False, timeout=30) as http:
            return http.request(method, f"{self.endpoint}{path}", json=body, headers=sent)

    def lines(
        self, method: str, path: str, body: Any = None, **headers: str
    ) -> list[dict[str, Any]]:
        answer = self.send(method, path, body, **headers)
        assert answer.status_code == 200, answer.text
        return [json.loads(line) for line in answer.text.splitlines()]

    def query(self, table: str = TABLE, **asked: Any) -> Rows:
        """The rows of a snapshot, by the files that are told."""
        return sum(
            (
                rows_of(line["file"]["url"])
                for line in self.lines("POST", f"{table}/query", asked)[2:]
            ),
            Counter(),
        )

    def changes(self, asked: str) -> dict[tuple[str, int], Rows]:
        """By kind and version."""
        found: dict[tuple[str, int], Rows] = {}
        for line in self.lines("GET", f"{TABLE}/changes?{asked}")[2:]:
            ((kind, file),) = line.items()
            key = (kind, file["version"])
            found[key] = found.get(key, Counter()) + rows_of(file["url"])
        return found

    def error(
        self, method: str, path: str, body: Any = None, *, token: str | None = None
    ) -> tuple[int, str]:
        answer = self.send(method, path, body, token=token)
        found = answer.json()
        assert sorted(found) == ["errorCode", "message"], found
        assert found["message"]
        return answer.status_code, found["errorCode"]


def rows_of(url: str) -> Rows:
    answer = httpx2.get(url, trust_env=False)
    assert answer.status_code == 200, answer.text
    return Counter(
        (row["k"], row["name"]) for row in pq.read_table(io.BytesIO(answer.content)).to_pylist()
    )


def rows(*keys: int) -> Rows:
    return Counter((k, "a") for k in keys)


def names(answer: httpx2.Response) -> list[str]:
    return [item["name"] for item in answer.json()["items"]]


def partitions(*groups: Sequence[int]) -> dict[str, list[Any]]:
    """One partition a group, of orders with these keys."""
    return {f"{number}.csv": [order(k) for k in keys] for number, keys in enumerate(groups)}


@contextmanager
def sharing(world: RecordWorld, *, history: bool = True, **other: Any) -> Iterator[Sharing]:
    with served(world, **other) as place, place.client() as client:
        client.create_share("sales")
        client.add_to_share("sales", ORDERS, history=history)
        profile = client.create_recipient("bob", ["sales"])["profile"]
        yield Sharing(place, profile["bearerToken"], profile["endpoint"])

"""A catalogue of orders behind HTTP, and what a reader of the protocol finds there.

Does not belong here: what is expected of it.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import fastavro
import httpx2
from obstore.store import S3Store

from tests.unit.records.world import RecordWorld, Served, served

TABLE = "main/namespaces/shop/tables/orders"
VENDED = {"X-Iceberg-Access-Delegation": "vended-credentials"}


@dataclass(frozen=True)
class Catalogue:
    place: Served

    @property
    def world(self) -> RecordWorld:
        return self.place.world

    def send(
        self, method: str, path: str, body: Any = None, token: str | None = None
    ) -> httpx2.Response:
        headers = {**VENDED, "Authorization": f"Bearer {token or self.place.token}"}
        url = f"{self.place.url}/iceberg/v1/{quote(path, safe='/?=&')}"
        with httpx2.Client(trust_env=False, timeout=30) as http:
            return http.request(method, url, json=body, headers=headers)

    def get(self, path: str, token: str | None = None) -> Any:
        answer = self.send("GET", path, token=token)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def post(self, path: str, body: Any) -> Any:
        answer = self.send("POST", path, body)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def error(self, method: str, path: str, body: Any = None, token: str | None = None) -> Any:
        """Status and type."""
        answer = self.send(method, path, body, token)
        error = answer.json()["error"]
        assert sorted(error) == ["code", "message", "type"]
        assert error["message"]
        assert error["code"] == answer.status_code
        return answer.status_code, error["type"]

    def planned(self, filter: Any = None, **other: Any) -> list[dict[str, Any]]:
        """The files of all pages of a plan of the orders."""
        return self.planned_of(TABLE, filter, **other)

    def planned_of(self, table: str, filter: Any, **other: Any) -> list[dict[str, Any]]:
        """The files of all pages of a plan."""
        page = self.post(f"{table}/plan", {"filter": filter, **other})
        assert page["status"] == "completed"
        files = list(page["file-scan-tasks"])
        while page["plan-tasks"]:
            (task,) = page["plan-tasks"]
            page = self.post(f"{table}/tasks", {"plan-task": task})
            files += page["file-scan-tasks"]
        return [task["data-file"] for task in files]


@dataclass(frozen=True)
class Files:
    """Reads files by the key that came with a table."""

    config: dict[str, str]

    def body(self, url: str) -> bytes:
        bucket, _, key = url.removeprefix("s3://").partition("/")
        store = S3Store(
            bucket,
            endpoint=self.config["s3.endpoint"],
            region=self.config["s3.region"],
            access_key_id=self.config["s3.access-key-id"],
            secret_access_key=self.config["s3.secret-access-key"],
            session_token=self.config["s3.session-token"],
            client_options={"allow_http": True},
            retry_config={"max_retries": 0},
        )
        return bytes(store.get(key).bytes())

    def records(self, url: str) -> list[Any]:
        return avro_records(self.body(url))

    def entries(self, manifest_list: str) -> list[Any]:
        """All entries of all manifests of a snapshot; lengths and counts are as the list has
        them."""
        entries = []
        for manifest in self.records(manifest_list):
            body = self.body(manifest["manifest_path"])
            assert len(body) == manifest["manifest_length"]
            mine = avro_records(body)
            assert len(mine) == manifest["existing_files_count"]
            rows = sum(entry["data_file"]["record_count"] for entry in mine)
            assert rows == manifest["existing_rows_count"]
            entries += mine
        return entries


def avro_records(body: bytes) -> list[Any]:
    return list(fastavro.reader(io.BytesIO(body)))


def ids_of(schema: Any) -> dict[str, int]:
    return {field["name"]: field["id"] for field in schema["fields"]}


def mapping_of(metadata: Any) -> dict[str, int]:
    """Names of columns, by `schema.name-mapping.default`."""
    mapped = json.loads(metadata["properties"]["schema.name-mapping.default"])
    return {name: field["field-id"] for field in mapped for name in field["names"]}


@contextmanager
def catalogue(world: RecordWorld, **other: Any) -> Iterator[Catalogue]:
    with served(world, **other) as place:
        yield Catalogue(place)

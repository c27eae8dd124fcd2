"""Tables of Iceberg as sources whose files are on Azure and Google."""

from __future__ import annotations

import base64
import hmac
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import obstore
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.io import OutputFile
from pyiceberg.table import Table

from dataplane.connectors.iceberg.iceberg_listing import partitions
from dataplane.connectors.iceberg.stored_files import IcebergObject, StoreFiles
from dataplane.connectors.iceberg.table_files import open_files
from dataplane.storage.source_stores import StoreAccess, open_root, root_of
from dataplane.task_failures import TaskFailure
from tests.iceberg_tables import NAME, rows_of
from tests.servers.azure import ACCOUNT, KEY, Azure
from tests.servers.gcs import Gcs
from tests.servers.gcs_front import TOKEN
from tests.unit.iceberg.reading import rows_of_job
from tests.unit.listing.location import list_job


class WrittenObject(io.BytesIO):
    """Bytes that become an object once they are closed."""

    def __init__(self, location: str) -> None:
        super().__init__()
        self.location = location

    def close(self) -> None:
        if not self.closed:
            root = root_of(self.location)
            path = self.location.removeprefix(f"{root}/")
            obstore.put(open_root(root, StoreAccess()), path, self.getvalue())
        super().close()


class NewObject(OutputFile):
    """An object that a writer makes. The store takes its bytes at the end."""

    def __len__(self) -> int:
        return len(self.to_input_file())

    def exists(self) -> bool:
        return self.to_input_file().exists()

    def to_input_file(self) -> IcebergObject:
        return IcebergObject(self.location, StoreAccess())

    def create(self, overwrite: bool = False) -> Any:
        return WrittenObject(self.location)


class CloudFiles(StoreFiles):
    """Files of a table that is written to a cloud."""

    def new_output(self, location: str) -> Any:
        return NewObject(location)


@pytest.fixture(autouse=True)
def no_stores() -> Iterator[None]:
    """Stores that are open have the credentials of their test."""
    open_root.cache_clear()
    yield
    open_root.cache_clear()


@pytest.fixture
def table(uri: str, tmp_path: Path) -> Iterator[Table]:
    """A table with two files, in a catalogue in SQLite."""
    files = {"py-io-impl": f"{__name__}.{CloudFiles.__name__}"}
    address = f"sqlite:///{tmp_path}/catalog.db"
    catalog = SqlCatalog("default", uri=address, warehouse=uri, **files)
    catalog.create_namespace("shop")
    table = catalog.create_table(NAME, rows_of(1).schema)
    for number in (1, 2):
        table.append(rows_of(number))
    yield table
    catalog.engine.dispose()


def test_a_table_is_listed_and_read(table: Table, tmp_path: Path) -> None:
    settings = {"catalog.uri": f"sqlite:///{tmp_path}/catalog.db", "table": NAME}
    job: Any = list_job(f"iceberg:{NAME}", connector="iceberg", settings=settings)
    rows = sorted(rows_of_job(job), key=lambda row: row["id"])
    assert rows == [{"id": 1, "name": "n1"}, {"id": 2, "name": "n2"}]
    by_path: Any = list_job(table.metadata_location, connector="iceberg", settings={})
    assert len(list(partitions(by_path))) == 2


def test_credentials_that_are_refused_are_named(
    cloud: Azure | Gcs, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    cloud.forget(monkeypatch)
    open_root.cache_clear()  # as in a process of its own
    job: Any = list_job(table.metadata_location, connector="iceberg", settings={})
    with pytest.raises(TaskFailure) as caught:
        list(partitions(job))
    assert caught.value.condition == "permission-denied"
    assert cloud.secret not in str(caught.value)


def test_a_token_of_the_catalogue_opens_files(
    cloud: Azure | Gcs, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without other credentials."""
    open_root.cache_clear()
    for name in ("AZURE_STORAGE_ACCOUNT_KEY", "GOOGLE_APPLICATION_CREDENTIALS"):
        monkeypatch.delenv(name, raising=False)
    host = table.location().partition("@")[2].partition("/")[0]
    tokens = {f"adls.sas-token.{host}": shared_access()}
    if isinstance(cloud, Gcs):
        tokens = {"gcs.oauth2.token": TOKEN}
    job: Any = {"settings": {}}
    files = open_files(job, tokens)
    assert files.metadata_text(table.metadata_location).startswith("{")
    wrong = open_files(job, dict.fromkeys(tokens, "sv=2021-08-06&sig=AAAA"))
    with pytest.raises(TaskFailure):
        wrong.metadata_text(table.metadata_location)


def shared_access() -> str:
    """A token for reading, signed with the key of the account.
    https://learn.microsoft.com/rest/api/storageservices/create-account-sas"""
    parts = {
        "sp": "r",
        "ss": "b",
        "srt": "o",
        "st": "",
        "se": "2099-01-01T00:00:00Z",
        "sip": "",
        "spr": "",
        "sv": "2021-08-06",
        "ses": "",
    }
    signed = "\n".join([ACCOUNT, *parts.values(), ""])
    digest = hmac.digest(base64.b64decode(KEY), signed.encode(), "sha256")
    given = {name: text for name, text in parts.items() if text}
    return urlencode({**given, "sig": base64.b64encode(digest).decode()})

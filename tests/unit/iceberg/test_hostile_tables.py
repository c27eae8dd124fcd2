"""Tables and catalogues of Iceberg whose writers mean harm: they end in clear errors, show no
secret, and lead to no refused place."""

from __future__ import annotations

import gzip
import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.schema import Schema
from pyiceberg.types import ListType, LongType, NestedField, StructType
from pyroaring import BitMap

from dataplane.connectors.iceberg import deleted_positions, table_files
from dataplane.connectors.iceberg.iceberg_listing import check, partitions
from dataplane.connectors.iceberg.null_projection import NullProjection
from dataplane.connectors.iceberg.table_files import open_files
from dataplane.secrets import LONGEST_LENT, hidden
from dataplane.task_failures import TaskFailure
from tests.iceberg_tables import IcebergTables, puffin_file, rows_of, vector
from tests.servers.s3 import CREDENTIALS, S3
from tests.servers.web import Web, web_server
from tests.unit.iceberg.reading import rows_of_job
from tests.unit.iceberg.rest_catalogue import TABLE_PATH, rest_job, serve
from tests.unit.listing.location import list_job

SECRET = "swordfish/and?more"


@pytest.fixture
def tables(tmp_path: Path) -> Iterator[IcebergTables]:
    opened = IcebergTables(tmp_path)
    yield opened
    opened.close()


def failure(job: Any) -> TaskFailure:
    """The error of a listing."""
    with pytest.raises(TaskFailure) as raised:
        list(partitions(job))
    return raised.value


def by_path(path: Path) -> Any:
    return list_job(str(path), connector="iceberg", settings={})


# --- bounds -------------------------------------------------------------------------------------


def test_metadata_is_bounded_by_its_values_before_it_is_parsed(tables: IcebergTables) -> None:
    path = tables.folder / "v1.metadata.json"
    path.write_text("[" + "{}," * 1_000_000 + "{}]")  # 3 MB, which parsed would be 72
    error = failure(by_path(path))
    assert error.condition == "listing-too-large"
    assert "more than 1,000,000 values" in str(error)


def test_metadata_in_gzip_is_bounded_by_its_unpacked_size(
    tables: IcebergTables, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = tables.create(rows_of(1))
    plain = Path(table.metadata_location.removeprefix("file://")).read_bytes()
    path = tables.folder / "v1.gz.metadata.json"
    path.write_bytes(gzip.compress(plain))
    assert rows_of_job(by_path(path)) == [{"id": 1, "name": "n1"}]
    monkeypatch.setattr(table_files, "TABLE_BYTES", 1 << 16)
    path.write_bytes(gzip.compress(plain + bytes(1 << 17)))
    assert path.stat().st_size < 1 << 16
    assert failure(by_path(path)).condition == "listing-too-large"


def deleted(folder: Path, blob: bytes, **properties: Any) -> list[Any]:
    path = folder / "deletes.puffin"
    path.write_bytes(puffin_file({"/data.parquet": blob}, **properties))
    arrays = deleted_positions.deleted_positions(
        PyArrowFileIO({}), "/data.parquet", [[str(path), "PUFFIN"]]
    )
    return [array.to_pylist() for array in arrays]


def test_a_small_vector_is_not_unpacked_into_a_large_one(tmp_path: Path) -> None:
    assert deleted(tmp_path, vector(BitMap([1, 7]))) == [[1, 7]]
    run = BitMap()
    run.add_range(0, deleted_positions.MOST_POSITIONS + 1)
    run.run_optimize()
    assert len(run.serialize()) < 1 << 14
    for blob in (vector(run), vector(BitMap([1]), key=2**31 - 1), vector(BitMap([1]), count=9)):
        with pytest.raises(TaskFailure, match="compact the table") as raised:
            deleted(tmp_path, blob)
        assert raised.value.condition == "not-supported"
    with pytest.raises(TaskFailure, match="damaged"):
        deleted(tmp_path, vector(BitMap([1])), **{"compression-codec": "zstd"})


def test_a_large_puffin_file_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "large.puffin"
    with path.open("wb") as file:
        file.truncate(deleted_positions.PUFFIN_BYTES + 1)
    with pytest.raises(TaskFailure, match="more than 64 MiB"):
        deleted_positions.deleted_positions(
            PyArrowFileIO({}), "/data.parquet", [[str(path), "PUFFIN"]]
        )


def test_a_catalogue_that_never_answers_is_ended(tmp_path: Path) -> None:
    path = tmp_path / "catalog.db"
    with closing(sqlite3.connect(path)) as database:
        database.execute(
            "CREATE VIEW iceberg_tables AS"
            " WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t)"
            " SELECT n AS metadata_location, 'default' AS catalog_name,"
            " 'shop' AS table_namespace, 'none' || n AS table_name FROM t"
        )
    settings = {"catalog.uri": f"sqlite:///{path}", "table": "shop.orders"}
    job = list_job("iceberg:shop.orders", connector="iceberg", settings=settings)
    error = failure(job)
    assert error.condition == "unreadable"
    assert "interrupted" in str(error)


# --- damage -------------------------------------------------------------------------------------


def test_damaged_files_are_clear_errors(tables: IcebergTables) -> None:
    table = tables.create(rows_of(1))
    metadata = Path(table.metadata_location.removeprefix("file://"))
    content = json.loads(metadata.read_text())
    metadata.write_text(json.dumps({**content, "properties": 1.5}))
    assert failure(tables.job()).condition == "unreadable"
    metadata.write_text(json.dumps(content))
    snapshot = table.current_snapshot()
    assert snapshot is not None
    manifests = Path(snapshot.manifest_list.removeprefix("file://"))
    whole = manifests.read_bytes()
    manifests.write_bytes(whole[:-56] + bytes([255] * 40) + whole[-16:])
    assert failure(tables.job()).condition == "unreadable"


# --- places -------------------------------------------------------------------------------------


@pytest.fixture
def web() -> Iterator[Web]:
    with web_server() as server:
        yield server


def test_a_catalogue_leads_to_no_refused_place(
    tables: IcebergTables, web: Web, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables.create(rows_of(1))
    serve(web, tables)
    assert rows_of_job(rest_job(web)) == [{"id": 1, "name": "n1"}]
    serve(web, tables, config={"s3.endpoint": "http://169.254.169.254"})
    assert failure(rest_job(web)).condition == "place-refused"
    serve(web, tables)
    monkeypatch.setenv("HEADGATE_SOURCES", web.url)
    assert "HEADGATE_SOURCES" in str(failure(rest_job(web)))  # the files are elsewhere
    monkeypatch.setenv("HEADGATE_SOURCES", str(tables.folder))
    assert failure(rest_job(web)).condition == "place-refused"  # the catalogue is
    monkeypatch.delenv("HEADGATE_SOURCES")
    web.redirects[TABLE_PATH] = "http://169.254.169.254/latest"
    assert failure(rest_job(web)).condition == "place-refused"


@pytest.mark.parametrize(
    "location",
    [
        "S3://lake/home/x",
        "S3A://lake/home/x",
        "s3://la\tke/home/x",
        " s3://lake/home/x",
        "s3:/lake/home/x",
        "s3://lake/a/../home/x",
        "s3://lake?/home/x",
        "GS://lake/home/x",
        "az://lake/home/x",
    ],
)
def test_no_other_spelling_of_an_address_is_opened(
    location: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Arrow takes them, and the refused places are written in one spelling."""
    monkeypatch.setenv("HEADGATE_LAKE", "s3://lake/home")
    job: Any = {"settings": {}}
    files = open_files(job, {})
    assert len(files.new_input("s3://other/home/x").location) > 0
    with pytest.raises(TaskFailure, match="are read from local folders") as raised:
        files.new_input(location)
    assert raised.value.condition == "not-supported"


@pytest.mark.parametrize("answer", [[1], "x", {"defaults": 1}, {"overrides": {"prefix": ".."}}])
def test_an_answer_of_another_form_is_a_clear_error(web: Web, answer: object) -> None:
    web.files["/v1/config"] = json.dumps(answer).encode()
    assert failure(rest_job(web)).condition in ("unreadable", "place-refused")


# --- secrets ------------------------------------------------------------------------------------


def test_a_token_is_not_shown_and_goes_to_no_other_host(
    tables: IcebergTables, web: Web, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADGATE_SECRET_SHOP_TOKEN", SECRET)
    tables.create(rows_of(1))
    serve(web, tables)
    web.token = f"Bearer {SECRET}"
    job = rest_job(web, **{"catalog.token": "secret://shop/token"})
    assert SECRET not in str(list(partitions(job)))
    web.token = "Bearer other"
    error = failure(job)
    assert error.condition == "permission-denied"
    assert SECRET not in str(error)
    with web_server() as other:
        web.token = ""
        other.files["/orders"] = web.files[TABLE_PATH]
        web.redirects[TABLE_PATH] = f"{other.url}/orders"
        list(partitions(job))
        assert "authorization" not in other.headers


@pytest.mark.parametrize("address", ["postgresql://app:{}@127.0.0.1:1/db", "ftp://app:{}@host/db"])
def test_a_login_in_an_address_is_not_shown(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """`/` and `?` in a password make another address of it."""
    monkeypatch.setenv("HEADGATE_SECRET_SHOP_URI", address.format(SECRET))
    settings = {"catalog.uri": "secret://shop/uri", "table": "shop.orders"}
    job: Any = {"settings": settings, "place": "", "writes": False}
    with pytest.raises(TaskFailure) as raised:
        check(job)
    assert raised.value.condition == "bad-url"
    assert "swordfish" not in hidden(str(raised.value))


def test_keys_of_a_store_are_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADGATE_SECRET_SHOP_ID", CREDENTIALS["AWS_ACCESS_KEY_ID"])
    monkeypatch.setenv("HEADGATE_SECRET_SHOP_KEY", SECRET)
    server = S3().start()
    try:
        server.bucket("lake")
        settings = {
            "storage.endpoint": server.url,
            "storage.access_key_id": "secret://shop/id",
            "storage.secret_access_key": "secret://shop/key",
        }
        path = "s3://lake/v1.metadata.json"
        error = failure(list_job(path, connector="iceberg", settings=settings))
    finally:
        server.remove()
    assert SECRET not in str(error)
    assert error.condition == "unreadable"


def test_keys_of_the_worker_sign_for_no_store_of_a_catalogue(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAWORKER")
    monkeypatch.delenv("AWS_ENDPOINT_URL_S3", raising=False)
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9000/")
    job: Any = {"settings": {}}
    balancer = "https://s3-shop.us-east-1.elb.amazonaws.com"
    for endpoint in ("https://127.0.0.1:1", "https://s3.amazonaws.com.example", balancer):
        with pytest.raises(
            TaskFailure, match="own keys of this worker sign for no store"
        ) as raised:
            open_files(job, {"s3.endpoint": endpoint})
        assert raised.value.condition == "place-refused"
        assert open_files(job, {"s3.endpoint": endpoint, "s3.access-key-id": "a"})
    with pytest.raises(TaskFailure, match=r"s3\.region that is no name"):
        open_files(job, {"s3.region": "other.example/"})
    monkeypatch.setenv("HEADGATE_SOURCES", "/")  # local files, and no server
    for endpoint in ("other.example:9000", "169.254.169.254", "http://169.254.169.254?", "file:/a"):
        with pytest.raises(TaskFailure, match=r"s3\.endpoint that is no address"):
            open_files(job, {"s3.endpoint": endpoint, "s3.access-key-id": "a"})
    for own in ("http://127.0.0.1:9000", "https://s3.eu-west-1.amazonaws.com"):
        assert open_files(job, {"s3.endpoint": own}).properties["s3.endpoint"] == own


def test_declared_keys_of_a_store_take_no_token_of_the_catalogue() -> None:
    vended = {"s3.access-key-id": "a", "s3.session-token": "t" * 20, "s3.region": "eu-west-1"}
    keys = {"storage.access_key_id": "b", "storage.secret_access_key": "c" * 20}
    job: Any = {"settings": keys}
    properties = open_files(job, vended).properties
    assert "s3.session-token" not in properties
    assert (properties["s3.access-key-id"], properties["s3.region"]) == ("b", "eu-west-1")
    no_keys: Any = {"settings": {}}
    assert open_files(no_keys, {**vended, "s3.secret-access-key": "table"})
    assert hidden(f"a table, {'t' * 20}") == "a table, ***"
    with pytest.raises(TaskFailure, match=r"s3\.session-token that is too long"):
        open_files(no_keys, {"s3.session-token": "t" * (LONGEST_LENT + 1)})


# --- NULL ---------------------------------------------------------------------------------------


def test_pyiceberg_still_needs_the_correction_of_null() -> None:
    """Once this fails, pyiceberg keeps NULL: `null_projection.py` goes."""
    inner = StructType(NestedField(3, "x", LongType(), required=False))
    kind = ListType(2, inner, element_required=False)
    schema = Schema(NestedField(1, "l", kind, required=False))
    rows = pa.array([None, []], pa.list_(pa.struct([("x", pa.int64())])))
    corrected = NullProjection(schema).list(kind, rows, rows.values)
    assert corrected is not None
    assert corrected.to_pylist() == [None, []]
    (original,) = NullProjection.__bases__
    assert original(schema).list(kind, rows, rows.values).to_pylist() == [[], []]

"""Places that no dataflow may read: the installation's own, the system's, and what the operator
does not allow."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Any, cast

import pytest

from controlplane.core.blueprint import parse
from controlplane.core.errors import InvalidBlueprint
from controlplane.drivers.local_pool import inherited
from dataplane.contract.jobs import ListJob, WriteJob
from dataplane.contract.schemas import struct_of
from dataplane.listing.files import check_folder, list_files
from dataplane.listing.version_cache import Versions
from dataplane.storage.refused_places import Places
from dataplane.storage.store_addresses import access_of
from dataplane.task_failures import TaskFailure


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    found = tmp_path / "home"
    (found / "run").mkdir(parents=True)
    (found / "lake").mkdir()
    (found / "run" / "admin.csv").write_text("hg_secret")
    (found / "lake" / "other.csv").write_text("rows of another")
    monkeypatch.setenv("HEADGATE_HOME", str(found))
    monkeypatch.delenv("HEADGATE_SOURCES", raising=False)
    monkeypatch.delenv("HEADGATE_LAKE", raising=False)
    return found


@pytest.fixture
def data(tmp_path: Path) -> Path:
    found = tmp_path / "data"
    found.mkdir()
    (found / "own.csv").write_text("a\n1\n")
    return found


def listing(location: str) -> ListJob:
    return cast(
        "ListJob", {"location": location, "format": "csv", "options": {}, "partition": None}
    )


def names(location: str, lake: str = "") -> list[str]:
    found = list_files(listing(location), Versions(), None, lake)
    return [o["name"] for p in found["partitions"] for o in p["objects"]]


def refusal(location: str, lake: str = "") -> str:
    with pytest.raises(TaskFailure) as told:
        names(location, lake)
    assert told.value.condition == "place-refused"
    return told.value.message


@pytest.mark.parametrize(
    "below",
    [
        "home/run/*",
        "home/**/*.csv",
        "home/lake/*",
        "data/../home/run/*",
        "*/run/*",
        "home/run/admin.csv",
    ],
)
def test_nothing_below_the_home_is_listed(home: Path, data: Path, below: str) -> None:
    assert str(home) in refusal(f"{home.parent}/{below}")


def test_what_lies_beside_the_home_is(home: Path, data: Path) -> None:
    assert names(f"{data}/*") == ["own.csv"]
    beside = home.parent / "home2"
    beside.mkdir()
    (beside / "x.csv").touch()
    assert names(f"{beside}/*") == ["x.csv"]


@pytest.mark.parametrize("link", ["folder", "file", "base"])
def test_no_link_leads_into_the_home(home: Path, data: Path, link: str) -> None:
    match link:
        case "folder":
            (data / "sub").symlink_to(home / "run")
            location = f"{data}/*/*.csv"
        case "file":
            (data / "x.csv").symlink_to(home / "run" / "admin.csv")
            location = f"{data}/*.csv"
        case _:
            (data.parent / "alias").symlink_to(home)
            location = f"{data.parent}/alias/run/*"
    refusal(location)


def test_a_home_that_is_itself_a_link_is_refused_by_both_of_its_names(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home.parent / "alias").symlink_to(home)
    monkeypatch.setenv("HEADGATE_HOME", str(home.parent / "alias"))
    refusal(f"{home}/run/*")
    refusal(f"{home.parent}/alias/run/*")


@pytest.mark.parametrize(
    "location",
    [
        "/proc/self/environ",
        "/proc/*/environ",
        "file:///proc/self/*",
        "/sys/kernel/*",
        "/dev/*",
        "/proc/self/root/etc/*",
    ],
)
def test_no_place_of_the_system_is_listed(location: str) -> None:
    refusal(location)


def test_no_glob_over_folders_gets_around_it(home: Path) -> None:
    refusal("/pro[c]/self/environ")


def test_a_lake_elsewhere_is_refused(home: Path, data: Path) -> None:
    refusal(f"{data}/*", lake=data.as_uri())
    refusal(f"{data}/*", lake=str(data))


def test_secrets_are_refused(home: Path, data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADGATE_SECRETS", str(data))
    refusal(f"{data}/*")


# --- what the operator allows ---------------------------------------------------------------------


def test_the_allow_list_names_all_that_is_listed(
    home: Path, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = data.parent / "data2"
    other.mkdir()
    (other / "x.csv").touch()
    monkeypatch.setenv("HEADGATE_SOURCES", f"s3://bucket/in, {data}")
    assert names(f"{data}/*") == ["own.csv"]
    assert "HEADGATE_SOURCES" in refusal(f"{other}/*")
    (data / "x.csv").symlink_to(other / "x.csv")
    refusal(f"{data}/*")


def test_an_allow_list_of_nothing_allows_nothing(
    home: Path, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADGATE_SOURCES", " , ")
    refusal(f"{data}/*")


def test_what_was_remembered_is_refused_once_it_is_not_allowed(
    home: Path, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A listing that looks as it did is not told again, and must not pass for that."""
    cache = Versions(home / "versions.db", lambda: 2**62)
    job = listing(f"{data}/*")
    was = list_files(job, cache)["digest"]
    assert "partitions" not in list_files({**job, "was": was}, cache)
    monkeypatch.setenv("HEADGATE_SOURCES", "/nowhere")
    with pytest.raises(TaskFailure, match="HEADGATE_SOURCES"):
        list_files({**job, "was": was}, cache)


@pytest.mark.parametrize(
    ("place", "is_fine"),
    [
        ("s3://bucket/in", True),
        ("s3://bucket/in/x.csv", True),
        ("s3://bucket/inner/x.csv", False),
        ("s3://bucket", False),
        ("s3://other/in/x.csv", False),
        ("gs://bucket/in/x.csv", False),
        ("abfs://c@a.dfs.core.windows.net/x", True),
        ("abfss://c@A.dfs.core.windows.net/x", True),
        ("s3://bucket/in/lake/x.csv", False),
    ],
)
def test_prefixes_of_stores(place: str, is_fine: bool) -> None:
    allowed = "s3://bucket/in,abfss://c@a.dfs.core.windows.net"
    places = Places.of({"HEADGATE_SOURCES": allowed, "HEADGATE_LAKE": "s3://bucket/in/lake"})
    if is_fine:
        places.check_source(place)
        return
    with pytest.raises(TaskFailure) as told:
        places.check_source(place)
    assert told.value.condition == "place-refused"


@pytest.mark.parametrize(
    "root",
    [
        "abfss://c@a.dfs.core.windows.net",
        "abfs://c@a.blob.core.windows.net",
        "abfss://c:password@A.blob.core.windows.net",
        "abfss://c@a.dfs.core.windows.net:443",
        "abfss://c",
    ],
)
def test_a_container_of_azure_is_one_by_all_its_names(
    root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", "a")
    for lake in (root, "abfss://c@a.dfs.core.windows.net"):
        places = Places.of({"HEADGATE_LAKE": f"{lake}/lake"})
        for name in (root, "abfss://c@a.dfs.core.windows.net"):
            with pytest.raises(TaskFailure, match="Headgate's lake"):
                places.check_source(f"{name}/lake/x.csv")
        places.check_source("abfss://c@b.dfs.core.windows.net/lake/x.csv")


@pytest.mark.parametrize("bucket", ["x@lakes", "lakes:443", "la\tkes", "lakes?x", "lakes#x"])
@pytest.mark.parametrize("scheme", ["s3", "gs"])
def test_a_bucket_has_one_name(scheme: str, bucket: str) -> None:
    """Clients open `lakes` by each of these names, of which the refused places know one."""
    places = Places.of({"HEADGATE_LAKE": f"{scheme}://lakes/one"})
    location = f"{scheme}://{bucket}/one/x.csv"
    for check in (places.check_source, places.check_target):
        with pytest.raises(TaskFailure, match="names no bucket"):
            check(location)


STORES = {
    "http://127.0.0.1:9000": True,  # of AWS_ENDPOINT_URL
    "https://s3.eu-west-1.amazonaws.com": True,
    "https://s3-shop.us-east-1.elb.amazonaws.com": False,  # a load balancer of any customer
    "https://minio.example:9000": True,  # of HEADGATE_SOURCES
    "minio.example:9000": False,  # as a file it is below /, which is of HEADGATE_SOURCES
    "https://minio.example:9001": False,
    "http://minio.example:9000": False,
}


@pytest.mark.parametrize(("endpoint", "is_fine"), STORES.items())
def test_own_keys_sign_for_stores_of_the_operator_alone(
    monkeypatch: pytest.MonkeyPatch, endpoint: str, is_fine: bool
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9000/")
    monkeypatch.delenv("AWS_ENDPOINT_URL_S3", raising=False)
    monkeypatch.setenv("HEADGATE_SOURCES", "/, s3://shop, https://minio.example:9000")
    monkeypatch.setenv("HEADGATE_SECRET_S_KEY", "key of a component")
    place, keys = {"storage.endpoint": endpoint}, ("access_key_id", "secret_access_key")
    declared = {f"storage.{key}": "secret://s/key" for key in keys}
    if is_fine:
        assert access_of(store_job(place)).endpoint == endpoint
        return
    with pytest.raises(TaskFailure, match="own keys of this worker sign for no store") as raised:
        access_of(store_job(place))
    assert raised.value.condition == "place-refused"
    assert access_of(store_job(place | declared)).endpoint == endpoint
    # Nor is it read with keys of the component, for the list does not name it
    job: Any = {**listing("s3://shop/*.csv"), "settings": place | declared}
    with pytest.raises(TaskFailure, match="HEADGATE_SOURCES does not name the store"):
        list_files(job, Versions(), None, "")


def store_job(settings: dict[str, str]) -> Any:
    return {"settings": settings}


def test_no_store_sees_the_keys_of_a_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HEADGATE_SOURCES", raising=False)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAWORKER")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("AWS_SESSION_TOKEN", "session")
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        endpoint = f"http://127.0.0.1:{server.getsockname()[1]}"
        job: Any = {**listing("s3://shop/*.csv"), "settings": {"storage.endpoint": endpoint}}
        with pytest.raises(TaskFailure, match="own keys of this worker"):
            list_files(job, Versions(), None, "")
        with pytest.raises(BlockingIOError):  # no client has connected
            server.accept()


def test_a_driver_reads_nothing_that_is_refused(home: Path, data: Path) -> None:
    places = Places.of(os.environ, "s3://lakes/one")
    fine = [{"uri": f"file://{data}/own.csv"}, {"uri": "s3://shop/x.csv"}, {"uri": "python:home"}]
    places.check_objects(fine)
    for uri in (
        f"file://{home}/run/admin.csv",
        f"file://{data}/%2e%2e/home/run/admin.csv",
        "s3://lakes/one/x.parquet",
    ):
        with pytest.raises(TaskFailure) as told:
            places.check_objects([*fine, {"uri": uri}])
        assert told.value.condition == "place-refused"


# --- checks, targets, validate --------------------------------------------------------------------


@pytest.mark.parametrize("writes", [False, True])
def test_a_connection_to_the_home_is_refused(home: Path, writes: bool) -> None:
    with pytest.raises(TaskFailure) as told:
        check_folder(
            {"connector": "files", "place": f"{home}/run", "options": {}, "writes": writes}
        )
    assert told.value.condition == "place-refused"


def test_nothing_is_written_into_the_home(home: Path) -> None:
    from dataplane.connectors.files.file_writer import write_tasks
    from dataplane.storage.lake import LocalLake

    lake = LocalLake(home / "lake")
    place, schema = str(home / "out"), struct_of([])
    job: WriteJob = {"path": place, "format": "csv", "options": {}, "owner": "me", "schema": schema}
    with pytest.raises(TaskFailure) as told:
        write_tasks(
            job, lake, {"task": "t", "epoch": 1, "partition": "p", "generation": 1, "files": []}
        )
    assert told.value.condition == "place-refused"
    assert not (home / "out").exists()


@pytest.mark.parametrize(
    "path", ["/proc/self/environ", "/data/../dev/zero", "file:///sys/*", "//proc/1/*", "/proc"]
)
def test_validate_refuses_places_of_the_system(path: str) -> None:
    text = f"dataflow: f\ncomponents:\n  x:\n    read: {{connector: files, path: '{path}', format: csv}}\n"
    with pytest.raises(InvalidBlueprint) as told:
        parse(text, file="/w/f.yaml")
    assert [p.code for p in told.value.problems] == ["place-refused"]


def test_children_are_told_the_allow_list() -> None:
    assert inherited({"HEADGATE_SOURCES": "/data"}) == {"HEADGATE_SOURCES": "/data"}

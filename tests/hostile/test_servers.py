"""Web and SFTP servers that lead elsewhere, change their minds, or are not who they should be."""

from __future__ import annotations

import hashlib
import itertools
import socket
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dataplane.listing import sftp_listing
from dataplane.listing.bounds import ListingBounds
from dataplane.listing.files import check_folder, list_files
from dataplane.listing.version_cache import Versions
from dataplane.storage import http_files, sftp_files, source_copies
from dataplane.storage.http_files import http_chunks
from dataplane.storage.source_stores import Moved
from dataplane.task_failures import TaskFailure
from tests.servers.sftp import USER, sftp_server
from tests.servers.web import Web, web_server

CSV = b"id,v\n1,one\n"
METADATA = "http://169.254.169.254/latest/meta-data"


def job(location: str, **settings: str) -> Any:
    whole = {"location": location, "format": "csv", "options": {"header": True}, "metadata": []}
    return {**whole, "partition": None, "settings": settings, "listing": ""}


def refused(location: str, **settings: str) -> TaskFailure:
    with pytest.raises(TaskFailure) as failure:
        list_files(job(location, **settings), Versions())
    return failure.value


def keys(location: str, **settings: str) -> list[str]:
    found = list_files(job(location, **settings), Versions())
    return [p["key"] for p in found["partitions"]]


# --- web servers ----------------------------------------------------------------------------------


@pytest.fixture
def web(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("HEADGATE_SECRET_WEB_TOKEN", "Bearer a-token-of-tests")
    with web_server() as server:
        yield server


def test_no_redirect_leads_where_nothing_may_be_read(
    web: Web, monkeypatch: pytest.MonkeyPatch
) -> None:
    web.redirects["/a.csv"] = METADATA
    assert refused(f"{web.url}/a.csv").condition == "place-refused"
    assert refused(f"{METADATA}/a.csv").condition == "place-refused"
    monkeypatch.setattr(
        socket, "getaddrinfo", lambda *_, **__: [(2, 1, 6, "", ("169.254.1.1", 80))]
    )
    assert refused("http://named.example/a.csv").condition == "place-refused"


def test_a_redirect_stays_among_the_sources_and_takes_no_header_along(
    web: Web, monkeypatch: pytest.MonkeyPatch
) -> None:
    with web_server() as other:
        web.redirects["/a.csv"], other.files["/a.csv"] = f"{other.url}/a.csv", CSV
        location, header = f"{web.url}/a.csv", {"http.Authorization": "secret://web/token"}
        assert keys(location, **header) == ["a.csv"]
        assert web.headers["authorization"] == "Bearer a-token-of-tests"
        assert "authorization" not in other.headers
        monkeypatch.setenv("HEADGATE_SOURCES", web.url)
        assert refused(location, **header).condition == "place-refused"


def test_nothing_is_sent_to_an_address_that_a_name_changes_to(
    web: Web, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_files, "leads_to_link_local", lambda _: False)
    monkeypatch.setattr(http_files, "is_link_local", lambda address: address == "127.0.0.1")
    web.files["/a.csv"] = CSV
    failure = refused(f"{web.url}/a.csv", **{"http.Authorization": "secret://web/token"})
    assert failure.condition == "place-refused"
    assert web.requests == []


@pytest.mark.parametrize(
    "target",
    [
        "file:///etc/passwd",
        "ftp://127.0.0.1/a.csv",
        "//[::ffff:169.254.169.254]/a.csv",
        "//[64:ff9b::a9fe:a9fe]/a.csv",
        "//[fe80::1%25lo]/a.csv",
        "//2852039166/a.csv",
        "//a@169.254.169.254/a.csv",
        "/x/%2e%2e/a.csv",
        "/x%2f..%2fa.csv",
    ],
)
def test_a_redirect_leads_to_plain_places_alone(target: str, web: Web) -> None:
    web.redirects["/a.csv"] = target
    assert refused(f"{web.url}/a.csv").condition == "place-refused"


def test_braces_make_no_way_out_of_the_sources(web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    web.files["/a.csv"] = CSV
    monkeypatch.setenv("HEADGATE_SOURCES", f"{web.url}/x")
    assert refused(f"{web.url}/x/{{..,b}}/a.csv").condition == "place-refused"


def test_headers_have_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a server that sends them byte by byte."""
    monkeypatch.setattr(http_files, "ANSWER_S", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(10_000)
                connection.sendall(b"HTTP/1.1 200 OK\r\nX: ")
                connection.recv(1)  # until the client ends it

        thread = threading.Thread(target=answer)
        thread.start()
        failure = refused(f"http://127.0.0.1:{server.getsockname()[1]}/a.csv")
        thread.join()
    assert (failure.condition, failure.kind) == ("unreachable", "infrastructure")


def test_bytes_are_handed_on_as_they_come() -> None:
    """So that a server which sends one at a time meets the bounds of time."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}/a.csv"
        parts = http_chunks(job(url), url, "")

        def answer() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(10_000)
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nx")
                connection.recv(1)

        thread = threading.Thread(target=answer)
        thread.start()
        assert next(parts) == b"x"
        parts.close()  # type: ignore[attr-defined]
        thread.join()


def test_redirects_end(web: Web) -> None:
    web.redirects["/a.csv"] = "/a.csv"
    assert "redirects" in refused(f"{web.url}/a.csv").message


def test_an_unchanged_file_is_not_sent_again(web: Web, tmp_path: Path) -> None:
    web.files = {f"/{n}.csv": CSV for n in "abc"}
    cache = Versions(tmp_path / "versions.db")
    location = f"{web.url}/{{a,b,c}}.csv"
    first = list_files(job(location), cache)
    web.requests.clear()
    assert list_files(job(location), cache) == first
    assert web.requests == [304, 304, 304]


def test_gone_files_are_withdrawn_and_errors_are_none(web: Web) -> None:
    web.files["/a.csv"] = CSV
    location = f"{web.url}/{{a,b}}.csv"
    assert keys(location) == ["a.csv"]
    web.files.clear()
    assert refused(location).condition == "path-not-found"
    web.token = "Bearer another"
    assert refused(location).condition == "permission-denied"


def test_the_query_of_a_url_belongs_to_the_name(web: Web) -> None:
    web.files = {f"/export?day={n}": CSV for n in "12"}
    whole = job(f"{web.url}/export?day={{1,2,3}}")
    partitions = list_files(whole, Versions())["partitions"]
    assert [p["objects"][0]["name"] for p in partitions] == ["export?day=1", "export?day=2"]


def test_an_answer_has_bounds_and_an_end(web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    web.etags = False
    web.files["/a.csv"] = CSV
    url = f"{web.url}/a.csv"
    with pytest.raises(Moved):
        list(http_chunks(job(url), url, "sha256:00"))
    monkeypatch.setattr("dataplane.listing.http_listing.MOST_BYTES", 5)
    assert refused(url).condition == "file-too-large"


def test_a_server_that_says_nothing_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_files, "TIMEOUT_S", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as server:
        failure = refused(f"http://127.0.0.1:{server.getsockname()[1]}/a.csv")
    assert (failure.condition, failure.kind) == ("unreachable", "infrastructure")


def test_an_answer_that_breaks_off_is_an_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(10_000)
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nid,v\n")

        thread = threading.Thread(target=answer)
        thread.start()
        failure = refused(f"http://127.0.0.1:{server.getsockname()[1]}/a.csv")
        thread.join()
    assert (failure.condition, failure.kind) == ("unreachable", "infrastructure")


def test_a_copy_has_bounds(web: Web, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    web.files["/a.csv"] = CSV
    monkeypatch.setattr(source_copies, "MOST_BYTES", 5)
    with pytest.raises(TaskFailure) as failure:
        source_copies.copy_file(
            job(web.url), f"{web.url}/a.csv", "", tmp_path / "copy", lambda _: None
        )
    assert failure.value.condition == "file-too-large"


def test_a_check_says_what_a_server_answers(web: Web) -> None:
    connection: Any = {"connector": "files", "options": {}, "writes": False}
    connection["place"] = f"{web.url}/a.csv"
    with pytest.raises(TaskFailure, match="there is no file"):
        check_folder(connection)
    web.files["/a.csv"] = CSV
    check_folder(connection)


# --- SFTP -----------------------------------------------------------------------------------------


def test_a_server_of_sftp_is_known_by_its_key_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "a.csv").write_bytes(CSV)
    with sftp_server(tmp_path) as server:
        monkeypatch.setenv("HEADGATE_SECRET_SFTP_KEY", server.private_key)
        monkeypatch.setenv("HEADGATE_SECRET_SFTP_WRONG", "no key")
        location = f"{server.url}{tmp_path}/data/*.csv"
        settings = {"sftp.user": USER, "sftp.key": "secret://sftp/key"}
        known = {**settings, "sftp.host_key": server.fingerprint}
        assert keys(location, **known) == ["a.csv"]
        for host_key in ("", "SHA256:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU"):
            failure = refused(location, **{**settings, "sftp.host_key": host_key})
            assert failure.condition == "host-key-refused"
            assert server.fingerprint in failure.message
        failure = refused(location, **{**known, "sftp.key": "secret://sftp/wrong"})
        assert failure.condition == "credentials-refused"
        failure = refused(f"{server.url}{tmp_path}/nothing/*.csv", **known)
        assert failure.condition == "path-not-found"


def test_files_and_folders_of_sftp_have_bounds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADGATE_SECRET_SFTP_PASSWORD", "a password of tests")
    folder = tmp_path / "data"
    folder.mkdir()
    for name in "abc":
        (folder / f"{name}.csv").write_bytes(CSV)
    with sftp_server(tmp_path) as server:
        settings = {
            "sftp.user": USER,
            "sftp.password": "secret://sftp/password",
            "sftp.host_key": server.fingerprint,
        }
        whole = job(f"{server.url}{folder}/*.csv", **settings)
        (first, *_) = list_files(whole, Versions())["partitions"]
        monkeypatch.setattr(sftp_files, "MOST_BYTES", 5)
        with pytest.raises(TaskFailure) as failure:
            next(sftp_files.sftp_chunks(whole, first["objects"][0]["uri"], ""))
        assert failure.value.condition == "file-too-large"
        client: Any = SimpleNamespace(listdir_iter=lambda _: itertools.repeat(None))
        with pytest.raises(TaskFailure, match="more than 10 files"):
            sftp_listing._entries(client, "/", ListingBounds(most=10))

        def look_for_ever() -> None:
            with sftp_files.connected(whole, whole["location"], 0.05) as connection:
                while True:
                    connection.stat(str(folder))

        with pytest.raises(TaskFailure) as failure:
            look_for_ever()
        assert failure.value.condition == "unreachable"


def test_checksums_are_versions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADGATE_SECRET_SFTP_PASSWORD", "a password of tests")
    folder = tmp_path / "data"
    (folder / "x").mkdir(parents=True)
    (folder / "x" / "a.csv").write_bytes(CSV)
    (folder / "b.csv").write_bytes(CSV)
    digest = hashlib.sha256(CSV).hexdigest()
    (folder / "SUMS.csv").write_text(f"{digest}  ./x/a.csv\n")
    with sftp_server(tmp_path) as server:
        settings = {
            "sftp.user": USER,
            "sftp.password": "secret://sftp/password",
            "sftp.host_key": server.fingerprint,
            "sftp.checksums": "SUMS.csv",
        }
        whole = job(f"{server.url}{folder}/**/*.csv", **settings)
        listed = {p["key"]: p["objects"][0] for p in list_files(whole, Versions())["partitions"]}
        assert list(listed) == ["b.csv", "x/a.csv"]
        assert listed["b.csv"]["version"].startswith("modified:")
        assert listed["x/a.csv"]["version"] == f"sha256:{digest}"
        (folder / "x" / "a.csv").write_bytes(CSV.replace(b"one", b"two"))
        with pytest.raises(Moved):
            source_copies.copy_file(
                whole, listed["x/a.csv"]["uri"], f"sha256:{digest}", tmp_path / "c", lambda _: None
            )

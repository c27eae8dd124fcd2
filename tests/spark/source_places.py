"""Places of source files as the conformance suite sees them: files are put there and removed. A new
place is a context manager in PLACES."""

from __future__ import annotations

import io
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import obstore
import pytest

from tests.servers.s3 import CREDENTIALS, S3
from tests.servers.sftp import PASSWORD, USER, sftp_server
from tests.servers.web import web_server


@dataclass
class SourcePlace:
    """`settings`: those of a job. `secrets`: texts that no error may hold."""

    location: str
    settings: dict[str, Any]
    put: Callable[[str, bytes], None]
    remove: Callable[[str], None]
    secrets: tuple[str, ...] = ()
    wrong: dict[str, Any] = field(default_factory=dict)  # settings that the server refuses


Opened: TypeAlias = AbstractContextManager[SourcePlace]
TOKEN = "Bearer a-token-of-tests"


def zipped(files: dict[str, bytes]) -> bytes:
    output = io.BytesIO()
    with zipfile.ZipFile(output, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(zipfile.ZipInfo(name, (2024, 1, 1, 0, 0, 0)), content)
    return output.getvalue()


def tarred(files: dict[str, bytes]) -> bytes:
    output = io.BytesIO()
    with tarfile.open(fileobj=output, mode="w:gz") as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(f"./{name}")
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return output.getvalue()


@contextmanager
def local(folder: Path) -> Iterator[SourcePlace]:
    def put(name: str, content: bytes) -> None:
        (folder / name).write_bytes(content)

    yield SourcePlace(f"{folder}/*.csv", {}, put, lambda name: (folder / name).unlink())


@contextmanager
def web(*, etags: bool, times: bool) -> Iterator[SourcePlace]:
    with web_server(etags=etags, times=times) as server:
        server.token = TOKEN

        def put(name: str, content: bytes) -> None:
            server.files[f"/data/{name}"] = content
            server.changed_s[f"/data/{name}"] = 1e9 + len(content)

        yield SourcePlace(
            f"{server.url}/data/{{a,b,c}}.csv",
            {"http.Authorization": "secret://place/token"},
            put,
            lambda name: server.files.__delitem__(f"/data/{name}"),
            (TOKEN,),
            {"http.Authorization": "secret://place/wrong"},
        )


@contextmanager
def sftp(folder: Path, *, checksums: bool = False) -> Iterator[SourcePlace]:
    own = folder / "server"
    own.mkdir()
    with sftp_server(own) as server:
        files = folder / "data"
        files.mkdir()

        def put(name: str, content: bytes) -> None:
            (files / name).write_bytes(content)

        settings = {
            "sftp.user": USER,
            "sftp.password": "secret://place/password",
            "sftp.host_key": server.fingerprint,
        }
        location = f"{server.url}{files}/*.csv"
        place = SourcePlace(location, settings, put, lambda name: (files / name).unlink())
        place.secrets = (PASSWORD,)
        place.wrong = {**settings, "sftp.password": "secret://place/wrong"}
        yield place


@contextmanager
def s3() -> Iterator[SourcePlace]:
    server = S3().start()
    try:
        bucket = server.bucket("places")
        settings = {
            "storage.endpoint": server.url,
            "storage.region": CREDENTIALS["AWS_REGION"],
            "storage.access_key_id": "secret://place/s3_id",
            "storage.secret_access_key": "secret://place/s3_key",
        }
        place = SourcePlace(
            "s3://places/data/*.csv",
            settings,
            lambda name, content: put_object(bucket, f"data/{name}", content),
            lambda name: delete_object(bucket, f"data/{name}"),
        )
        place.secrets = (CREDENTIALS["AWS_SECRET_ACCESS_KEY"],)
        place.wrong = {**settings, "storage.secret_access_key": "secret://place/wrong"}
        yield place
    finally:
        server.remove()


def put_object(bucket: Any, name: str, content: bytes) -> None:
    obstore.put(bucket, name, content, use_multipart=False)


def delete_object(bucket: Any, name: str) -> None:
    obstore.delete(bucket, name)


@contextmanager
def archived(
    kind: str, pack: Callable[[dict[str, bytes]], bytes], opened: Opened
) -> Iterator[SourcePlace]:
    """The files as members of one archive at another place."""
    files: dict[str, bytes] = {}
    with opened as place:

        def change() -> None:
            place.put(f"all.{kind}", pack(files))

        def put(name: str, content: bytes) -> None:
            files[name] = content
            change()

        def remove(name: str) -> None:
            del files[name]
            change()

        location = place.location.rpartition("/")[0] + f"/all.{kind}"
        settings = {**place.settings, "members": "*.csv"}
        wrong = {**place.wrong, "members": "*.csv"} if place.wrong else {}
        yield SourcePlace(location, settings, put, remove, place.secrets, wrong)


# Each is two places of the others, one in the other
TOGETHER = ("zip-of-web", "tar-of-sftp", "zip-of-s3")
PLACES: dict[str, Callable[[Path], Opened]] = {
    "local": local,
    "zip": lambda folder: archived("zip", zipped, local(folder)),
    "tar": lambda folder: archived("tar.gz", tarred, local(folder)),
    "etags": lambda _: web(etags=True, times=False),
    "times": lambda _: web(etags=False, times=True),
    "neither": lambda _: web(etags=False, times=False),
    "zip-of-web": lambda _: archived("zip", zipped, web(etags=True, times=False)),
    "sftp": sftp,
    "tar-of-sftp": lambda folder: archived("tar.gz", tarred, sftp(folder)),
    "zip-of-s3": lambda _: archived("zip", zipped, s3()),
}


PARAMS = [
    pytest.param(name, marks=pytest.mark.soak) if name in TOGETHER else name for name in PLACES
]
# Local files need no secret, in an archive or not
WITH_SECRETS = [name for name in PARAMS if name not in ("local", "zip", "tar")]


@pytest.fixture(params=PARAMS)
def place(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[SourcePlace]:
    secrets = {
        "TOKEN": TOKEN,
        "PASSWORD": PASSWORD,
        "WRONG": "not the secret",
        "S3_ID": CREDENTIALS["AWS_ACCESS_KEY_ID"],
        "S3_KEY": CREDENTIALS["AWS_SECRET_ACCESS_KEY"],
    }
    for name, text in secrets.items():
        monkeypatch.setenv(f"HEADGATE_SECRET_PLACE_{name}", text)
    folder = tmp_path / "place"
    folder.mkdir()
    with PLACES[request.param](folder) as opened:
        yield opened

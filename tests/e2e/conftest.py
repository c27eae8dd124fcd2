"""The example's data, laid out once, and workspaces that leave no process behind."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from controlplane.demo.data import lay_out
from dataplane.spark.warmup import COMMAND
from tests.e2e.workspace import Workspace, example
from tests.servers.kafka import Kafka
from tests.servers.s3 import S3

Make = Callable[..., Workspace]


@pytest.fixture(scope="session", autouse=True)
def prepared() -> None:
    """What each driver would else make for later ones, once and before all of them."""
    subprocess.run(COMMAND, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


@pytest.fixture(scope="session")
def monthly(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All of the raw data, a file per month."""
    folder = tmp_path_factory.mktemp("monthly")
    lay_out(folder, "month")
    return folder


@pytest.fixture(scope="module")
def module_folder(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Path:
    return tmp_path_factory.mktemp(request.module.__name__.rpartition(".")[2])


@pytest.fixture
def workspace(tmp_path: Path) -> Iterator[Workspace]:
    """An empty folder."""
    with closing(Workspace(tmp_path)) as found:
        yield found


@pytest.fixture
def flights(tmp_path: Path) -> Iterator[Workspace]:
    """The example's blueprint, without data."""
    with closing(example(tmp_path)) as found:
        yield found


@pytest.fixture(scope="session")
def s3() -> Iterator[S3]:
    server = S3().start()
    yield server
    server.remove()


@pytest.fixture(scope="module")
def kafka() -> Iterator[Kafka]:
    server = Kafka().start()
    yield server
    server.remove()


def on_s3(server: S3, workspace: Workspace, secrets: Path) -> Workspace:
    """The workspace with its lake on a server. `secrets`: a folder to be made, in which credentials lie."""
    place = f"lake/{workspace.mark}"
    secrets.mkdir()
    environment = server.environment() | {
        "HEADGATE_LAKE": f"s3://{place}",
        "HEADGATE_LAKE_CREDENTIALS": str(secrets),
    }
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        (secrets / name).write_text(environment.pop(name) + "\n")
    return replace(workspace, elsewhere=server.home / "data" / place, environment=environment)


LAKES = ("local", pytest.param("s3", marks=pytest.mark.soak))


def placed(request: pytest.FixtureRequest, workspace: Workspace) -> Workspace:
    """The workspace with the lake that one of LAKES asks for."""
    if request.param == "local":
        return workspace
    return on_s3(request.getfixturevalue("s3"), workspace, workspace.folder.with_suffix(".secrets"))


class closing:  # noqa: N801  # like contextlib's
    """Ends what a workspace started."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace

    def __enter__(self) -> Workspace:
        return self._workspace

    def __exit__(self, *_: object) -> None:
        self._workspace.end_all()

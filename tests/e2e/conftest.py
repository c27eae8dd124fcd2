"""The example's data, laid out once, and workspaces that leave no process behind."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from controlplane.demo.data import lay_out
from dataplane.spark.warmup import COMMAND
from tests.e2e.workspace import Workspace, example
from tests.servers.s3 import S3
from tests.slices import TURN, in_turn

Make = Callable[..., Workspace]
FIRST_WORKER = "gw0"  # of pytest-xdist


@pytest.fixture(scope="session", autouse=True)
def prepared() -> None:
    """What each driver would else make for later ones, once and before all of them.

    One worker of a run makes it. The others' drivers start without it until it is there, where they
    would wait.
    """
    if os.environ.get("PYTEST_XDIST_WORKER", FIRST_WORKER) == FIRST_WORKER:
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


LASTING, SINGLE = "lasting", "single"
# Twice as many as stories with ways, and prime: turns of other lengths hide none for good
COMMITS = 29


def ways(turn: int) -> list[Any]:
    """The ways of a story's runs: in one process that lasts, or, at one in 29 commits, each in a
    process of its own.

    Each story has a `turn` that no other has. Processes of their own show that all is found again
    in the home, and that each process ends. The first run, crashes, stopping and lakes in stores
    show that at every commit. `make soak` runs each story both ways.
    """
    is_single = turn % COMMITS == TURN % COMMITS
    left_out = SINGLE if not is_single else LASTING
    marks = {left_out: [pytest.mark.soak]}
    return [
        pytest.param(way, marks=[pytest.mark.sweep, *marks.get(way, [])])
        for way in (LASTING, SINGLE)
    ]


LAKES_IN_TURN = ("s3", "azure", "s3", "gcs", "s3", "hdfs")


def lake_in(store: str) -> list[pytest.MarkDecorator]:
    """Marks of the story of a lake in a store: at each commit one store has it, S3 at every other
    one.

    Each story dies at its first commit and goes on, so that each run of the tests shows this on one
    store. `tests/s3`, `tests/clouds`, `tests/hdfs` and `spark/test_on_s3` ask each store at every
    commit what it does in its own way.
    """
    share = LAKES_IN_TURN.count(store)
    return in_turn(LAKES_IN_TURN.index(store), len(LAKES_IN_TURN) // share)


@pytest.fixture
def workspace(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Workspace]:
    """An empty folder. A story that has `ways` gives one."""
    with closing(Workspace(tmp_path, lasts=getattr(request, "param", "") == LASTING)) as found:
        yield found


@pytest.fixture
def flights(tmp_path: Path) -> Iterator[Workspace]:
    """The example's blueprint, without data."""
    with closing(example(tmp_path)) as found:
        yield found


def on_s3(server: S3, workspace: Workspace, secrets: Path) -> Workspace:
    """The workspace with its lake on a server. `secrets`: a folder to be made, in which credentials
    lie."""
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

"""The example's data, laid out once, and workspaces that leave no process behind."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from controlplane.demo.data import lay_out
from tests.e2e.workspace import Workspace, example

Make = Callable[..., Workspace]


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


class closing:  # noqa: N801  # like contextlib's
    """Ends what a workspace started."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace

    def __enter__(self) -> Workspace:
        return self._workspace

    def __exit__(self, *_: object) -> None:
        self._workspace.end_all()

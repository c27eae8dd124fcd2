"""A service that trusts an issuer, for each test anew, and the command line beside it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from controlplane.__main__ import Bootstrap
from controlplane.cli.main import run
from tests.unit.trust.world import Command, Told, Trusting, trusting


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Trusting]:
    with trusting(tmp_path) as found:
        yield found


@pytest.fixture
def headgate(
    place: Trusting,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> Command:
    """With these variables and the URL of the service."""

    def command(*arguments: str, **variables: str) -> Told:
        with monkeypatch.context() as patch:
            for name, value in {
                "HEADGATE_URL": place.url,
                "HEADGATE_HOME": str(tmp_path / "home"),
                **variables,
            }.items():
                patch.setenv(name, value)
            code = run(arguments, Bootstrap())
        out, err = capfd.readouterr()
        return Told(code, out, err)

    return command

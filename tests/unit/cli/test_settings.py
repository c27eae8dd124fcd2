"""Settings from the environment and the command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from controlplane import settings
from controlplane.settings import BadSetting


def test_everything_lies_in_the_home_unless_told_otherwise(tmp_path: Path) -> None:
    found = settings.read(environ={"HEADGATE_HOME": str(tmp_path), "HEADGATE_URL": ""})
    assert (found.home, found.lake, found.url, found.pool) == (tmp_path, (tmp_path / "lake").as_uri(), None, "local")
    assert found.database_url == f"sqlite:///{tmp_path}/metadata.db"


def test_the_command_line_wins(tmp_path: Path) -> None:
    environ = {"HEADGATE_HOME": "/elsewhere", "HEADGATE_DATABASE_URL": "memory:", "HEADGATE_LAKE": "s3://b/p"}
    found = settings.read(tmp_path, environ)
    assert (found.home, found.database_url, found.lake) == (tmp_path, "memory:", "s3://b/p")


@pytest.mark.parametrize("given", [{"HEADGATE_POOL": "x"}, {"HEADGATE_SEMANTICS": "-1"}, {"HEADGATE_SEMANTICS": "x"}])
def test_what_cannot_be_meant_is_refused(given: dict[str, str]) -> None:
    with pytest.raises(BadSetting, match=next(iter(given))):
        settings.read(environ=given)

"""What the control plane was told in confidence is in none of its answers and log lines."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import jwt
import pytest

from controlplane import logs, settings
from controlplane.api import problem_json
from controlplane.core.errors import Problem
from controlplane.core.redaction import redacted, remember

DATABASE = "postgresql+psycopg://u:p%40ss-of-db@h/d"


def test_what_is_secret_comes_from_the_settings(tmp_path: Path) -> None:
    environ = {
        "HEADGATE_SECRET_A_B": "of-a-source",
        "HEADGATE_DATABASE_URL": DATABASE,
        "HEADGATE_TOKEN": "hg_short",
    }
    found = settings.secrets_in(environ, settings.read(tmp_path, environ))
    assert {"of-a-source", "p%40ss-of-db", "p@ss-of-db", "hg_short"} <= set(found)


def test_short_values_are_left_alone() -> None:
    remember(["", "abc"])
    assert redacted("abcdef") == "abcdef"


def test_an_identity_token_is_hidden_wherever_it_stands() -> None:
    token = jwt.encode({"sub": "u1"}, "a shared secret that is long enough!", "HS256")
    assert redacted(f"it sent {token}, and went") == "it sent eyJ***, and went"
    assert redacted("eyJhbGciOi is no token") == "eyJhbGciOi is no token"


def test_problems_and_logs_are_without_secrets(capsys: pytest.CaptureFixture[str]) -> None:
    remember(["of-a-source-12", "of-a-source-12-longer"])
    told = problem_json.body(
        400, "x", "it was of-a-source-12-longer", "1", [Problem("f", 1, 1, "x", "of-a-source-12")]
    )
    assert (told["detail"], told["errors"][0]["message"]) == ("it was ***", "***")
    logs.configure()
    logs.get("test").warning("refused", reason="of-a-source-12", at=DATABASE)
    logging.getLogger("other").warning("connecting to %s as of-a-source-12", DATABASE)
    ours, others = capsys.readouterr().err.splitlines()
    assert json.loads(ours)["reason"] == "***"
    assert "of-a-source-12" not in others
    assert "p%40ss" not in ours + others

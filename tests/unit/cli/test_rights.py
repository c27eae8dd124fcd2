"""Commands about tokens and the audit."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from controlplane.__main__ import Bootstrap
from controlplane.cli.main import run


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("URL", "TOKEN", "HOME", "POOL", "DATABASE_URL", "LAKE"):
        monkeypatch.delenv(f"HEADGATE_{name}", raising=False)


def headgate(*arguments: str) -> int:
    return run(arguments, Bootstrap())


def test_a_token_is_narrowed_and_the_audit_is_exported(capsys: pytest.CaptureFixture[str]) -> None:
    narrow = ("--dataflow", "sales_*", "--branch", "pr-*", "--branch", "main", "--expires", "30d")
    assert headgate("token", "create", "ci", "--role", "data", "--role", "operate", *narrow) == 0
    assert (
        " ci (data, operate; dataflow sales_*; branch pr-*, main), ends " in capsys.readouterr().out
    )
    assert headgate("token", "list", "-o", "json") == 0
    (made,) = (token for token in json.loads(capsys.readouterr().out) if token["name"] == "ci")
    assert made["within"] == {
        "dataflows": ["sales_*"],
        "datasets": [],
        "branches": ["pr-*", "main"],
    }
    assert (made["used"], made["expires"] - made["at"]) == (None, 30 * 86400.0)
    assert headgate("audit", "--output", "ndjson", "--limit", "1") == 0
    output = capsys.readouterr()
    (line,) = map(json.loads, output.out.splitlines())
    assert (line["action"], line["target"], line["after"]["dataflows"]) == (
        "token.create",
        made["id"],
        ["sales_*"],
    )
    assert f"there may be more: --until {line['at']}" in output.err
    assert headgate("audit", "--reads") == 0
    assert capsys.readouterr().out == "nothing was read\n"


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("--expires", "soon"), 64, "write 90s, 30m, 12h or 30d"),
        (("--expires", "1d", "--ttl-s", "5"), 64, "not beside --ttl-s"),
        (
            ("--role", "owner"),
            1,
            "bad-scope: there is no role 'owner'; there are view, data, operate, edit, admin",
        ),
        (
            ("--dataflow", "sales"),
            1,
            "bad-scope: the roles admin and driver are of the whole installation",
        ),
        (
            ("--role", "view", "--dataset", "sales"),
            1,
            "is no pattern of a dataset; write one such as sales.orders",
        ),
    ],
)
def test_what_cannot_be_meant_is_refused(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], code: int, message: str
) -> None:
    assert headgate("token", "create", "ci", *arguments) == code
    assert message in capsys.readouterr().err

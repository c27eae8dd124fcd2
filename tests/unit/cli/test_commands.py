"""Commands as a user runs them: what goes to which stream, exit codes, and a document on failure
too."""

from __future__ import annotations

import io
import json
import signal
import socket
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from controlplane.__main__ import Bootstrap
from controlplane.cli.main import run
from controlplane.home import Home
from tests.e2e.workspace import ended

GOOD = """\
dataflow: shop
components:
  orders:
    read: {connector: files, path: data/*.csv, format: csv, schema: "id INT, price INT"}
  dear:
    transform: {python: "def transform(orders):\\n    return orders\\n", inputs: {orders: each}}
"""
BAD = """\
dataflow: Shop
components:
  orders:
    read: {connector: files, path: data/*.csv, format: csv, colour: red}
"""


CLOCK = """\
dataflow: shop
components:
  orders:
    read: {connector: files, path: data/*.csv, format: csv, schema: "id INT, price INT"}
  dear:
    transform:
      python: |
        from datetime import datetime
        def transform(orders):
            return orders.where(orders.id < datetime.now().year)
      inputs: {orders: each}
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with blueprints, and nothing of the environment."""
    monkeypatch.chdir(tmp_path)
    for name in ("URL", "TOKEN", "HOME", "POOL", "DATABASE_URL", "LAKE"):
        monkeypatch.delenv(f"HEADGATE_{name}", raising=False)
    (tmp_path / "good.yaml").write_text(GOOD)
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "1.csv").write_text("1,10\n")
    (tmp_path / "bad.yaml").write_text(BAD)
    (tmp_path / "binary.yaml").write_bytes(b"a: \xff\n")
    return tmp_path


def headgate(*arguments: str) -> int:
    return run(arguments, Bootstrap())


def test_validate_lists_every_problem_with_its_place(capsys: pytest.CaptureFixture[str]) -> None:
    assert headgate("validate", "bad.yaml", "good.yaml", "binary.yaml") == 1
    out, err = capsys.readouterr()
    lines = [line for line in out.splitlines() if not line.startswith("  ")]  # no excerpts
    rule = "a to z, 0 to 9 and _, beginning with a letter, such as shop"
    assert lines[0] == f"bad.yaml:1:11: invalid-name: 'Shop' is no name ({rule})"
    assert lines[1].startswith("bad.yaml:4:61: unknown-key: there is no key 'colour' here (")
    assert (
        lines[2]
        == "binary.yaml:1:4: invalid-encoding: byte 0xFF is not UTF-8 (save the file as UTF-8)"
    )
    assert (len(lines), err) == (3, "")


def test_what_a_terminal_cannot_show_is_spelled_out(
    monkeypatch: pytest.MonkeyPatch, folder: Path
) -> None:
    (folder / "\N{DUCK}.yaml").write_text(BAD)
    out = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(out, "latin-1", write_through=True))
    assert headgate("validate", "\N{DUCK}.yaml") == 1
    assert out.getvalue().startswith(b"\\U0001f986.yaml:1:11: invalid-name")


def test_validate_shows_a_blueprint_written_out(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shared = GOOD.replace("components:", "defaults: {owner: me}\ncomponents:")
    (folder / "shared.yaml").write_text(shared)
    assert headgate("validate", "shared.yaml", "--expand") == 0
    text = capsys.readouterr().out
    assert "defaults" not in text
    assert text.count("    owner: me\n") == 2
    (folder / "long.yaml").write_text(text)
    assert headgate("validate", "long.yaml", "--expand", "-o", "json") == 0
    assert json.loads(capsys.readouterr().out)["expanded"]["long.yaml"] == text


def test_validate_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert headgate("validate", "good.yaml", "--output", "json") == 0
    assert json.loads(capsys.readouterr().out) == {"valid": True, "errors": [], "notices": []}
    assert headgate("validate", "bad.yaml", "-o", "json") == 1
    errors = json.loads(capsys.readouterr().out)["errors"]
    assert [(e["file"], e["line"], e["code"]) for e in errors] == [
        ("bad.yaml", 1, "invalid-name"),
        ("bad.yaml", 4, "unknown-key"),
    ]


def test_code_that_reads_the_clock_is_noticed(
    capsys: pytest.CaptureFixture[str], folder: Path
) -> None:
    (folder / "clock.yaml").write_text(CLOCK)
    assert headgate("validate", "clock.yaml") == 0
    count, notice = capsys.readouterr().out.splitlines()
    assert count == "1 blueprint: no problems"
    assert notice.startswith(
        "clock.yaml:10:9: undeclared-volatile: .now(): the clock of Python code is the machine's"
    )
    assert headgate("plan", "clock.yaml", "--no-spark") == 0
    assert capsys.readouterr().out.splitlines()[-1] == notice
    (folder / "clock.yaml").write_text(CLOCK + "    volatile: daily\n")
    assert headgate("validate", "clock.yaml") == 0
    assert capsys.readouterr().out == "1 blueprint: no problems\n"


@pytest.mark.parametrize(
    ("arguments", "code", "problem"),
    [
        ((), 64, None),
        (("nothing",), 64, "wrong-arguments"),
        (("status", "--nothing"), 64, "wrong-arguments"),
        (("why",), 64, "wrong-arguments"),
        (("preview", "a.b", "-n", "x"), 64, "wrong-arguments"),
        (("validate", "nothing.yaml"), 1, "unreadable-file"),
        (("apply", "bad.yaml"), 1, "invalid-blueprint"),
        (("status", "no_flow"), 1, "not-found"),
        (("why", "a.b/2013-01.csv"), 1, "not-found"),
        (("lineage",), 64, "wrong-arguments"),
        (("lineage", "a.b/2013-01.csv", "--column", "c"), 1, "not-found"),
        (("delete", "a/b"), 1, "not-found"),
    ],
)
def test_failures_are_told_twice_and_counted_once(
    arguments: tuple[str, ...], code: int, problem: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    assert headgate(*arguments) == code
    out, err = capsys.readouterr()
    assert err or not arguments
    assert not out or not arguments
    if problem is not None:
        assert headgate(*arguments, "--output", "json") == code
        out, err = capsys.readouterr()
        document = json.loads(out)
        assert document["type"] == f"urn:headgate:{problem}"
        assert document["errors"][0]["message"]
        assert err


def test_problems_carry_the_names_that_were_typed(capsys: pytest.CaptureFixture[str]) -> None:
    assert headgate("apply", "bad.yaml") == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("bad.yaml:1:11: invalid-name: ")


@pytest.mark.slow
def test_without_a_server_commands_serve_themselves(
    capsys: pytest.CaptureFixture[str], folder: Path
) -> None:
    assert headgate("status") == 0
    assert "headgate apply" in capsys.readouterr().out
    assert headgate("plan", "good.yaml", "--no-spark", "--detailed-exitcode") == 2
    assert headgate("plan", "--detailed-exitcode") == 0
    assert headgate("apply", "good.yaml") == 0
    assert headgate("plan", "--detailed-exitcode", "-o", "yaml") == 2
    assert headgate("apply", "good.yaml", "--revision", "7") == 1
    assert headgate("refresh", "shop", "--force") == 0
    assert "shop.orders is computed again" in capsys.readouterr().out
    assert headgate("refresh", "shop.orders", "--from", "a") == 64
    assert "--from and --to are of --force" in capsys.readouterr().err
    assert headgate("refresh", "shop.orders", "--force", "--from", "a") == 1
    assert "has no partition in this range" in capsys.readouterr().err
    assert headgate("pause", "-o", "json") == 0
    assert json.loads(capsys.readouterr().out)["targets"] == ["shop"]
    assert headgate("wait", "-o", "json") == 0
    assert json.loads(capsys.readouterr().out)["state"] == "paused"
    assert headgate("resume") == 0
    assert headgate("wait") == 1
    assert "no-service" in capsys.readouterr().err
    assert headgate("apply", "good.yaml", "--wait") == 1
    assert "no-service" in capsys.readouterr().err
    for command in ("apply", "run"):
        assert headgate(command, "good.yaml", "--branch", "dev") == 1
        assert "there is no branch 'dev'" in capsys.readouterr().err
    assert headgate("delete", "shop", "--revision", "1", "-o", "md") == 0
    assert not Home(folder / ".headgate").is_held()


def test_tokens_are_made_listed_and_revoked(capsys: pytest.CaptureFixture[str]) -> None:
    assert headgate("token", "create", "ci", "--ttl-s", "60", "-o", "json") == 0
    made = json.loads(capsys.readouterr().out)
    assert headgate("token", "revoke", made["id"]) == 0
    capsys.readouterr()
    assert headgate("token", "list", "-o", "json") == 0
    listed = {t["name"]: t for t in json.loads(capsys.readouterr().out)}
    assert listed["ci"]["revoked"]
    assert not listed["home"]["revoked"]
    assert made["token"] not in json.dumps(listed)


def test_a_token_is_revoked_by_its_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert headgate("token", "create", "ci") == 0
    assert headgate("token", "revoke", "ci") == 0
    capsys.readouterr()
    assert headgate("token", "revoke", "ci") == 1
    assert "not-found: there is no live token with the id or name ci" in capsys.readouterr().err


def test_a_port_in_use_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        assert headgate("serve", "--port", str(port)) == 1
    err = capsys.readouterr().err
    assert err.startswith(
        f"headgate: cannot-listen: port {port} of 127.0.0.1 is in use by another process: end that"
    )
    assert "--port" in err


def test_a_host_of_another_machine_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert headgate("serve", "--host", "192.0.2.1") == 1
    assert "cannot-listen: 192.0.2.1 is no address of this machine" in capsys.readouterr().err


class Elsewhere(BaseHTTPRequestHandler):
    """Something that is no Headgate."""

    def do_GET(self) -> None:  # a name of the library's
        moved = self.path.endswith("/status")
        self.send_response(301 if moved else 200)
        if moved:
            self.send_header("Location", "https://there.example")
        self.end_headers()
        self.wfile.write(b"<html>")

    def log_message(self, *_: object) -> None:
        pass


def test_another_server_than_ours_is_named(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), Elsewhere) as server:
        threading.Thread(target=server.serve_forever).start()
        try:
            port = server.server_port
            monkeypatch.setenv("HEADGATE_URL", f"http://127.0.0.1:{port}")
            assert headgate("status") == 1
            assert (
                f"no-token: set HEADGATE_TOKEN to a token of http://127.0.0.1:{port}"
                in capsys.readouterr().err
            )
            monkeypatch.setenv("HEADGATE_TOKEN", "hg_x")
            assert headgate("status") == 1
            assert (
                "unexpected-answer: 127.0.0.1 answered 301, with a way to https://there"
                in capsys.readouterr().err
            )
            assert headgate("token", "list") == 1
            assert "unexpected-answer: 127.0.0.1 answered 200" in capsys.readouterr().err
        finally:
            server.shutdown()


@pytest.mark.parametrize("ttl", ["nan", "inf", "0"])
def test_a_token_lives_for_some_time(ttl: str) -> None:
    assert headgate("token", "create", "ci", "--ttl-s", ttl) == 64


def test_the_database_has_a_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert headgate("db", "version", "-o", "json") == 0
    assert json.loads(capsys.readouterr().out) == {"version": None}
    assert headgate("db", "upgrade") == 0
    upgraded = capsys.readouterr().out
    assert headgate("db", "version") == 0
    assert capsys.readouterr().out == upgraded


def test_settings_that_cannot_be_meant_are_errors(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADGATE_POOL", "cloud")
    assert headgate("status") == 1
    assert capsys.readouterr().err.startswith("headgate: bad-setting: HEADGATE_POOL")
    monkeypatch.delenv("HEADGATE_POOL")
    monkeypatch.setenv("HEADGATE_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("HEADGATE_TOKEN", "hg_x")
    assert headgate("status") == 1
    assert "unreachable: http://127.0.0.1:9/v1/branches/main/status" in capsys.readouterr().err


@pytest.mark.slow
def test_a_service_is_found_by_its_home_refuses_a_second_and_ends_in_order(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HEADGATE_POOL", "none")
    command = [sys.executable, "-m", "controlplane", "serve", "--home", "h", "--port", "0"]
    path = {"PYTHONPATH": str(Path(__file__).parents[3])}
    for name, value in path.items():
        monkeypatch.setenv(name, value)
    with ended(subprocess.Popen(command, stderr=subprocess.PIPE)) as service:
        assert service.stderr
        # It waits for the line with the URL
        assert any(b"http://127.0.0.1:" in line for line in service.stderr)
        assert headgate("apply", "good.yaml", "--home", "h") == 0
        capsys.readouterr()
        assert headgate("serve", "--home", "h", "--port", "0") == 1
        refused = capsys.readouterr().err
        for part in ("home-locked", str(service.pid), "http://127.0.0.1:", "--home"):
            assert part in refused
        service.send_signal(signal.SIGTERM)
        service.stderr.read()
        assert service.wait() == 0
    assert not (folder / "h" / "server.json").exists()
    assert headgate("status", "--home", "h", "-o", "json") == 0
    assert [f["name"] for f in json.loads(capsys.readouterr().out)["dataflows"]] == ["shop"]


def test_tests_are_looked_at_before_spark_is_started(
    capsys: pytest.CaptureFixture[str], folder: Path
) -> None:
    (folder / "tested.yaml").write_text(
        f"{GOOD}    tests:\n      - {{name: a, given: {{order: []}}, expect: []}}\n"
    )
    assert run(["test", "tested.yaml"], Bootstrap()) == 1
    problem = "tested.yaml:8:27: unknown-key: dear has no input 'order' (did you mean 'orders'?)\n"
    assert capsys.readouterr().err.splitlines(keepends=True)[0] == problem
    assert run(["test", "good.yaml"], Bootstrap()) == 0
    assert capsys.readouterr().out == "no tests: a transform has them below `tests:`\n"
    assert run(["test", "good.yaml", "-k", "dear"], Bootstrap()) == 1
    assert (
        capsys.readouterr().err == "headgate: not-found: no test's dataset or name holds 'dear'\n"
    )


@pytest.mark.parametrize(
    ("option", "value"), [("--home", "x"), ("--branch", "dev"), ("--rows", "3")]
)
def test_what_is_for_written_tests_is_refused_of_tests_that_run(
    option: str, value: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "shop.yaml").write_text("dataflow: shop\ncomponents: {}\n")
    assert headgate("test", str(tmp_path / "shop.yaml"), option, value) == 64
    assert "--like" in capsys.readouterr().err

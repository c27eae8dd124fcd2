"""Which process makes a run: the service that there is, and this one only where there is none."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from controlplane.__main__ import Bootstrap
from controlplane.cli import once, service_run, service_target
from controlplane.cli.main import run
from controlplane.cli.session import Service, Session
from controlplane.client import ApiError, Headgate
from controlplane.core.errors import HomeLocked
from controlplane.home import Home
from controlplane.operations.context import Context
from controlplane.operations.desired import controls
from controlplane.settings import read
from tests.e2e.workspace import ended
from tests.unit.api.conftest import world  # noqa: F401  # a fixture
from tests.unit.api.world import BLUEPRINT, World

ROOT = str(Path(__file__).parents[3])
PAUSED = """\
dataflow: shop
components:
  orders:
    paused: true
    read: {connector: files, path: data/*.csv, format: csv, schema: "id INT, price INT"}
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with a blueprint that needs no driver, and nothing of the environment."""
    monkeypatch.chdir(tmp_path)
    for name in ("URL", "TOKEN", "HOME", "DATABASE_URL", "LAKE"):
        monkeypatch.delenv(f"HEADGATE_{name}", raising=False)
    monkeypatch.setenv("HEADGATE_POOL", "none")
    monkeypatch.setenv("PYTHONPATH", ROOT)
    (tmp_path / "shop.yaml").write_text(PAUSED)
    return tmp_path


def headgate(*arguments: str) -> int:
    return run(arguments, Bootstrap())


@contextmanager
def started(*arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", "controlplane", *arguments]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    with ended(process):
        yield process


@contextmanager
def service(home: str) -> Iterator[subprocess.Popen[bytes]]:
    with started("serve", "--home", home, "--port", "0") as process:
        assert process.stderr
        # It waits for the line with the URL
        assert any(b"http://127.0.0.1:" in line for line in process.stderr)
        yield process


def test_a_service_that_cannot_be_reached_is_named_and_nothing_is_computed(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HEADGATE_URL", "http://127.0.0.1:1")
    before = sorted(folder.iterdir())
    for token in ("", "hg_x"):
        monkeypatch.setenv("HEADGATE_TOKEN", token)
        assert headgate("run", "shop.yaml", "-o", "json") == 1
        out, err = capsys.readouterr()
        assert json.loads(out)["type"] == "urn:headgate:unreachable"
        assert "unreachable: http://127.0.0.1:1/" in err
    assert sorted(folder.iterdir()) == before


def test_a_run_uses_the_service_that_holds_the_home_or_is_named(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with service("h") as process:
        holder = Home(folder / "h").holder()
        assert holder is not None
        assert headgate("run", "shop.yaml", "--home", "h", "-o", "json") == 0
        out, err = capsys.readouterr()
        made = json.loads(out)
        assert (made["state"], made["spark_started"], list(made)) == ("paused", False, FIELDS)
        words = (
            f"using the service that holds {folder / 'h'} (process {process.pid}, {holder['url']})"
        )
        assert err == f"headgate: {words}\n"
        assert headgate("apply", "shop.yaml", "--wait", "--home", "h") == 0
        out, err = capsys.readouterr()
        assert out.splitlines()[-1].startswith("paused in ")
        assert words in err

        token = Home(folder / "h").token()
        assert token is not None
        monkeypatch.setenv("HEADGATE_URL", holder["url"])
        monkeypatch.setenv("HEADGATE_TOKEN", token)
        assert headgate("run", "shop.yaml") == 0
        assert f"headgate: using the service at {holder['url']}\n" in capsys.readouterr().err
        with Headgate(holder["url"], token) as client:
            assert [f["revision"] for f in client.dataflows()] == [1]
            assert [c["action"] for c in client.audit()["items"]].count("run") == 2
    assert not (folder / ".headgate").exists()


FIELDS = ["state", "tasks", "spark_started", "wall_s", "datasets", "targets", "errors"]


def test_a_run_waits_for_another_run_that_holds_the_home_and_says_so(folder: Path) -> None:
    lock = Home(folder / "h").lock("run")
    with started("run", "shop.yaml", "--home", "h") as process:
        assert process.stderr
        message = process.stderr.readline().decode()
        assert (
            message
            == f"headgate: waiting for `headgate run` (process {os.getpid()}), which holds {folder / 'h'}\n"
        )
        lock.release()
        out, _ = process.communicate()
        assert (process.returncode, out.decode().splitlines()[-1].split(" in ")[0]) == (0, "paused")


def test_a_run_that_works_on_its_own_dataflows_is_no_service_for_others(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert headgate("apply", "shop.yaml", "--home", "h") == 0
    lock = Home(folder / "h").lock("run")
    with Bootstrap().start(read(folder / "h"), "look") as look:
        Home(folder / "h").announce(look.url, "run")
        assert headgate("apply", "shop.yaml", "--wait", "--home", "h") == 1
    assert "no-service: the `headgate run` that holds" in capsys.readouterr().err
    lock.release()


def test_a_holder_that_does_not_say_what_it_is_is_an_error(folder: Path) -> None:
    home = Home(folder / "h")
    lock = home.lock()
    home.server_file.unlink()
    wish = once.RunRequest(Session(Bootstrap()).load([Path("shop.yaml")]))
    pauses: list[float] = []
    with pytest.raises(HomeLocked, match="is held by another process"):
        service_target.make(
            Session(Bootstrap()),
            read(home.path),
            wish,
            lambda _: None,
            since=0.0,
            pause=pauses.append,
        )
    assert sum(pauses) == pytest.approx(service_target.STARTS_WITHIN_S)
    lock.release()


# --- waiting --------------------------------------------------------------------------------------


def unfinished(client: Headgate) -> int:
    return client.begin_run([{"name": "/data/shop.yaml", "text": BLUEPRINT}])["since"]


def waiting(world: World, client: Headgate, pause: object) -> service_run.Waiting:  # noqa: F811
    return service_run.Waiting(Service(world.url), client, "main", lambda _: None, pause)  # type: ignore[arg-type]


def test_a_service_that_ends_while_it_is_waited_for_is_told(world: World) -> None:  # noqa: F811
    with world.client() as client:
        since = unfinished(client)
        pauses: list[float] = []
        unreachable = Headgate("http://127.0.0.1:1", "hg_x")
        with (
            unreachable,
            pytest.raises(
                service_run.ServiceEnded, match=f"the service at {world.url} does not answer any"
            ),
        ):
            waiting(world, unreachable, pauses.append).settled(["shop"], since)
    assert pauses == list(service_run.LOST_PAUSES_S)


def test_who_stops_waiting_is_told_that_the_service_goes_on(world: World) -> None:  # noqa: F811
    def interrupted(_: float) -> None:
        raise KeyboardInterrupt

    with world.client() as client:
        since = unfinished(client)
        with pytest.raises(once.Interrupted, match="goes on with it: `headgate wait`"):
            waiting(world, client, interrupted).settled(["shop"], since)


def test_a_token_that_is_refused_ends_the_waiting_at_once(world: World) -> None:  # noqa: F811
    with world.client() as client:
        since = unfinished(client)
    with Headgate(world.url, "hg_wrong") as stranger, pytest.raises(ApiError, match="token"):
        waiting(world, stranger, pytest.fail).settled(["shop"], since)


def test_progress_is_told_until_all_is_settled(world: World) -> None:  # noqa: F811
    shown: list[service_run.Moving] = []
    context = Context(world.services.store)

    def pause(_: float) -> None:
        controls.pause(context, "main", "shop")

    with world.client() as client:
        since = unfinished(client)
        progress = service_run.Waiting(
            Service(world.url), client, "main", shown.append, pause
        ).settled(["shop"], since)
    assert [moving.states["shop.orders"] for moving in shown] == ["stale"]
    assert progress["state"] == "paused"

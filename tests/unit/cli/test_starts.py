"""What short commands and processes of the data plane import: the time of each start is mostly that
of its imports (docs/performance.md)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from controlplane.__main__ import Bootstrap
from controlplane.cli.main import run
from controlplane.settings import read

ROOT = str(Path(__file__).parents[3])
SERVER = {"fastapi", "starlette", "uvicorn", "pydantic", "alembic"}
MODULES = """
import os, sys
from controlplane.__main__ import main
os._exit = lambda code: None
main()
sys.stderr.write("\\n" + " ".join(sys.modules))
"""
DATABASE = {"sqlalchemy", "sqlglot"}
EMPTY = """\
dataflow: shop
components:
  orders: {read: {connector: files, path: orders/*.csv, format: csv, schema: id BIGINT}}
"""


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home that no process holds, with its database."""
    for name in ("URL", "TOKEN", "DATABASE_URL", "LAKE", "POOL"):
        monkeypatch.delenv(f"HEADGATE_{name}", raising=False)
    monkeypatch.setenv("HEADGATE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PYTHONPATH", ROOT)
    with Bootstrap().read(read()):
        return tmp_path / "home"


def imported(*arguments: str) -> list[str]:
    """The modules that a command has imported at its end, in a process of its own."""
    command = [sys.executable, "-c", MODULES, *arguments]
    errors = subprocess.run(command, check=True, capture_output=True, text=True).stderr
    return errors.splitlines()[-1].split()  # lines before it are of progress


def packages(modules: list[str]) -> set[str]:
    return {module.partition(".")[0] for module in modules}


def ours(modules: list[str]) -> int:
    return sum(module.startswith(("controlplane", "dataplane")) for module in modules)


def test_the_version_imports_no_parser_of_arguments() -> None:
    modules = imported("--version")
    assert not packages(modules) & {*SERVER, *DATABASE, "typer", "httpx2"}
    assert ours(modules) <= 6
    assert len(modules) <= 160


def test_help_imports_the_commands_and_nothing_that_they_use() -> None:
    modules = imported("--help")
    assert "controlplane.cli.look" in modules
    assert not packages(modules) & {*SERVER, *DATABASE, "httpx2", "rich", "yaml"}
    assert ours(modules) <= 80
    assert len(modules) <= 280


def test_the_status_of_a_service_imports_one_command_and_the_client() -> None:
    with Bootstrap().start(read(), "look") as server, pytest.MonkeyPatch.context() as environment:
        environment.setenv("HEADGATE_URL", server.url)
        environment.setenv("HEADGATE_TOKEN", server.token)
        modules = imported("status")
    assert "controlplane.cli.feeds" not in modules
    assert not packages(modules) & {*SERVER, *DATABASE, "rich", "yaml"}
    assert ours(modules) <= 60
    assert len(modules) <= 390


def test_the_status_of_a_stopped_home_imports_no_server() -> None:
    modules = imported("status")
    assert not packages(modules) & {*SERVER, "httpx2", "anyio"}
    assert ours(modules) <= 408
    assert len(modules) <= 820


def test_a_run_with_nothing_to_do_imports_no_framework_and_starts_no_spark(home: Path) -> None:
    """It serves its worker alone: what people and programs ask for is built at their request."""
    blueprint = home.parent / "shop.yaml"
    blueprint.write_text(EMPTY)
    modules = imported("run", str(blueprint))
    assert not packages(modules) & {"fastapi", "pydantic", "alembic", "httpx2", "rich", "duckdb"}
    assert not [m for m in modules if m.startswith("controlplane.services.queries")]
    assert [log.name.partition("-")[0] for log in (home / "logs").iterdir()] == ["worker"]
    assert ours(modules) <= 525
    assert len(modules) <= 1_080


def test_a_service_at_rest_imports_no_client(home: Path) -> None:
    code = """
import sys
from controlplane.__main__ import Bootstrap
from controlplane.settings import read
from controlplane import logs
logs.configure()
with Bootstrap().start(read(), "serve") as server:
    logs.get("test").info("serves", url=server.url)
print(*sys.modules)
"""
    command = [sys.executable, "-c", code]
    modules = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    assert "fastapi" in modules
    assert not packages(modules) & {"httpx2", "duckdb", "pyarrow"}
    assert len(modules) <= 1_505


@pytest.mark.parametrize("process", ["driver", "worker"])
def test_a_process_of_the_data_plane_claims_before_it_imports_libraries(process: str) -> None:
    code = f"import sys, dataplane.__main__, dataplane.runtime.{process}; print(*sys.modules)"
    command = [sys.executable, "-c", code]
    modules = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    assert not packages(modules) & {*SERVER, *DATABASE, "pyspark", "numpy", "pyarrow", "pandas"}
    assert ours(modules) <= 90
    assert len(modules) <= 400


@pytest.mark.parametrize("arguments", [(), ("--long",), ("nope",), ("--branch", "dev")])
def test_the_status_of_a_stopped_home_is_that_of_a_service(
    arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    stopped = run(["status", "--output", "md", *arguments], Bootstrap()), capsys.readouterr()
    with Bootstrap().start(read(), "look") as server, pytest.MonkeyPatch.context() as environment:
        environment.setenv("HEADGATE_URL", server.url)
        environment.setenv("HEADGATE_TOKEN", server.token)
        assert (
            run(["status", "--output", "md", *arguments], Bootstrap()),
            capsys.readouterr(),
        ) == stopped

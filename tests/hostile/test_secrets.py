"""Code of users looks for what it was not given: in its environment, its process, its errors, the
home."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from controlplane.core.model.drivers import Driver
from controlplane.drivers import user
from controlplane.drivers.local_pool import LocalPool
from controlplane.home import Home
from tests.e2e.workspace import Workspace, ended, until

OTHER, NAMED = "the-secret-of-another-component", "p4ss/wörd-of-this one"
FLOW = """\
dataflow: shop
components:
  scores:
    read:
      connector: python
      python: |
        import os
        from pathlib import Path

        def list(context):
            print(context.params["token"])
            os.system("env")
            seen = [str(dict(os.environ)), Path("/proc/self/environ").read_text(), os.popen("env").read()]
            seen += [Path(f"/proc/{os.getppid()}/environ").read_text()]
            raise RuntimeError("\\0".join([context.params["token"], *seen, "§" * 200_000]))

        def read(context, object):
            return []
      params: {token: secret://api/token}
      schema: id BIGINT
"""


@pytest.fixture
def workspace(tmp_path: Path) -> Iterator[Workspace]:
    workspace = Workspace(tmp_path)
    yield workspace
    workspace.end_all()


def test_code_of_a_source_sees_and_tells_no_secret(workspace: Workspace) -> None:
    workspace.write("shop.yaml", FLOW)
    given = {"HEADGATE_SECRET_API_TOKEN": NAMED, "HEADGATE_SECRET_OTHER_KEY": OTHER}
    process = workspace.start(
        "run", "shop.yaml", "--home", workspace.home, "--output", "json", **given
    )
    with ended(process):
        out, err = process.communicate()
    told = out.decode() + err.decode()
    assert "RuntimeError: ***" in told
    assert "\\\\x00" in told, "what is no text is visible"
    assert "§" * 64_001 not in told
    found = {path: path.read_bytes() for path in workspace.home.rglob("*") if path.is_file()}
    for secret in (OTHER, NAMED):
        assert secret not in told
        assert [path for path, content in found.items() if secret.encode() in content] == []


def test_a_worker_that_is_started_by_hand_leaves_no_secret_to_be_seen(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("hg_of-a-worker")
    given = {
        "HEADGATE_SECRET_API_TOKEN": NAMED,
        "HEADGATE_URL": "http://127.0.0.1:1",
        "HEADGATE_TOKEN_FILE": str(token),
    }
    command = [sys.executable, "-P", "-m", "dataplane", "worker"]
    with subprocess.Popen(command, env={**os.environ, **given}) as process:
        try:
            shown = Path(f"/proc/{process.pid}/environ")
            until(
                lambda: b"HEADGATE_HANDED=" in shown.read_bytes(), lambda: "it did not start anew"
            )
            assert b"HEADGATE_SECRET_API_TOKEN" not in shown.read_bytes()
        finally:
            process.send_signal(signal.SIGKILL)


def test_a_driver_user_that_cannot_be_is_told_at_the_start(workspace: Workspace) -> None:
    workspace.write("shop.yaml", FLOW)
    process = workspace.start(
        "run", "shop.yaml", "--home", workspace.home, HEADGATE_DRIVER_USER="no-such-user"
    )
    with ended(process):
        _, err = process.communicate()
    assert process.returncode == 1
    assert "HEADGATE_DRIVER_USER" in err.decode()


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """One that other users can reach."""
    folder = Path(tempfile.mkdtemp(dir="/tmp"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


TRIES = """\
echo "uid $(id -u) groups $(id -G)"
for secret in "{home}/token" "{home}/metadata.db" /proc/$PPID/environ "{home}/logs/old.log"; do
    cat "$secret" > /dev/null 2>&1 && echo "read $secret"
done
touch "$HEADGATE_HOME/mine" && echo "own folder"
mkdir -p "{home}/lake/made-by-root/below" && echo "lake"
ls "{home}" > /dev/null 2>&1 && echo "listed the home"
"""


@pytest.mark.skipif(sys.platform != "linux", reason="numbers of users are Linux's")
def test_drivers_run_as_another_user_who_cannot_open_the_home(open_folder: Path) -> None:
    if os.geteuid() != 0:
        with pytest.raises(user.BadUser, match="only root"):
            user.read("65534:65534" if os.geteuid() != 65534 else "1")
        return
    nobody = user.read("65534:65534")
    home = Home(open_folder / "home")
    home.prepare()
    home.keep_token("hg_x")
    for name in ("metadata.db", "logs/old.log"):
        (home.path / name).touch(0o600)
    own = user.open_to(nobody, home.path, f"file://{home.path}/lake")
    (home.path / "lake" / "made-by-root").mkdir()
    script = open_folder / "tries.sh"
    script.write_text(TRIES.format(home=home.path))
    pool = LocalPool(
        "http://127.0.0.1:1",
        home.path,
        lambda _: "hg_y",
        command=("/bin/sh", str(script)),
        user=nobody,
        own=own,
    )
    pool.scale("worker", 1)
    driver = until(lambda: _ended(pool.poll()), lambda: "the child does not end")
    assert driver
    told = (home.logs / f"{driver.id}.log").read_text().splitlines()
    pool.close()
    assert told == ["uid 65534 groups 65534", "own folder", "lake"]
    assert home.tighten() == ()


def _ended(drivers: tuple[Driver, ...]) -> Driver | None:
    return next((driver for driver in drivers if driver.ended), None)


@pytest.mark.parametrize(
    "text", ["root", "0", "nobody:0", "no-such-user", "4294967295", "nobody:no-such-group", ""]
)
def test_no_driver_runs_as_root_or_as_no_user(text: str) -> None:
    with pytest.raises(user.BadUser):
        user.read(text)

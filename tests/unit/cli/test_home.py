"""The home folder: one holder at a time, files for its owner only, messages that say what to do."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from controlplane.core.errors import BadHome, HomeLocked
from controlplane.home import Home
from controlplane.store import open_store, upgrade

HOLD = """
import sys
from pathlib import Path
from controlplane.home import Home
home = Home(Path(sys.argv[1]))
lock = home.lock()
home.announce("http://127.0.0.1:1")
print("held", flush=True)
sys.stdin.read()
"""


@contextmanager
def held(path: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that holds a home until it is ended."""
    command = [sys.executable, "-c", HOLD, str(path)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout
        assert process.stdout.readline() == "held\n"
        try:
            yield process
        finally:
            process.kill()


def test_a_second_holder_is_told_who_holds_it_and_what_to_do(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    assert not home.is_held()
    with held(home.path) as process:
        assert home.is_held()
        assert home.holder() == {"url": "http://127.0.0.1:1", "pid": process.pid, "role": "serve"}
        with pytest.raises(HomeLocked) as caught:
            home.lock()
        for part in (str(process.pid), "http://127.0.0.1:1", "--home", str(home.path)):
            assert part in str(caught.value)


def test_a_killed_holder_leaves_the_home_free(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    with held(home.path) as process:
        process.kill()
        process.wait()
        assert not home.is_held()
        home.lock().release()
    assert home.holder() is None


def test_what_is_secret_is_for_its_owner_only(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    os.umask(os.umask(0o022))
    lock = home.lock()
    home.keep_token("hg_x")
    assert home.token() == "hg_x"
    assert stat.S_IMODE(home.token_file.stat().st_mode) == 0o600
    assert stat.S_IMODE(home.path.stat().st_mode) == 0o700
    assert stat.S_IMODE(home.server_file.stat().st_mode) == 0o600
    lock.release()


def test_what_was_left_open_is_closed(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    home.prepare()
    home.keep_token("hg_x")
    database = home.path / "metadata.db"
    (home.path / "lake").chmod(0o777)
    database.touch()
    for path in (home.token_file, database):
        path.chmod(0o644)
    home.logs.chmod(0o755)
    home.path.chmod(0o777)
    assert set(home.tighten()) == {home.token_file, database, home.logs, home.path}
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in home.path.iterdir()}
    assert modes == {
        "token": 0o600,
        "metadata.db": 0o600,
        "logs": 0o700,
        "run": 0o700,
        "lake": 0o777,
    }
    assert stat.S_IMODE(home.path.stat().st_mode) == 0o755
    assert home.tighten() == ()


def test_links_out_of_the_home_are_left_alone(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_text("hg_x")
    elsewhere.chmod(0o644)
    home = Home(tmp_path / "home")
    home.prepare()
    home.token_file.symlink_to(elsewhere)
    assert home.tighten() == ()
    assert stat.S_IMODE(elsewhere.stat().st_mode) == 0o644


def test_a_database_is_private_from_its_first_byte(tmp_path: Path) -> None:
    path = tmp_path / "metadata.db"
    before = os.umask(0)
    try:
        upgrade(f"sqlite:///{path}")
        store = open_store(f"sqlite:///{path}")
        with store.begin("default"):
            modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in tmp_path.iterdir()}
        store.close()
    finally:
        os.umask(before)
    assert modes == dict.fromkeys(["metadata.db", "metadata.db-wal", "metadata.db-shm"], 0o600)


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "{}", '{"url": "x"}', '{"url": "x", "pid": "many"}']
)
def test_a_broken_server_file_names_nobody(tmp_path: Path, text: str) -> None:
    (tmp_path / "server.json").write_text(text)
    assert Home(tmp_path).holder() is None


@pytest.mark.parametrize("name", ["", "logs", "run", "lake"])
def test_a_file_in_place_of_a_folder_is_named_with_what_to_do(name: str, tmp_path: Path) -> None:
    path = tmp_path / "home" / name
    path.parent.mkdir(exist_ok=True)
    path.touch()
    with pytest.raises(BadHome, match="has to be a folder: move away what lies there") as caught:
        Home(tmp_path / "home").lock()
    assert str(caught.value).startswith(str(path))


@pytest.mark.parametrize("name", ["lock", "metadata.db", "server.json", "token"])
def test_a_folder_in_place_of_a_file_is_named_with_what_to_do(name: str, tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    (home.path / name).mkdir(parents=True)
    with pytest.raises(BadHome, match="has to be a file: move away what lies there") as caught:
        begin(home)
    assert str(caught.value).startswith(str(home.path / name))


def test_a_name_that_nobody_can_read_is_named_with_what_to_do(tmp_path: Path) -> None:
    home = Home(tmp_path)
    (tmp_path / "instance").write_bytes(b"\xff\xfe")
    with pytest.raises(BadHome, match="remove it, and it is made anew"):
        home.instance()


def begin(home: Home) -> None:
    """As a service does."""
    home.lock()
    home.keep_token("hg_x")

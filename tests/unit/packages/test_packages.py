"""Required packages: installed once, seen by whom they are for, and clear words where that
fails."""

from __future__ import annotations

import importlib.metadata
import sys
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dataplane.task_failures import TaskFailure
from dataplane.transform import packages
from dataplane.transform.environment import PATH, seeing
from tests.servers.ports import free_port
from tests.wheels import only_from, wheel

ONE, TWO = "hgtestpkg==1.0", "hgtestpkg==2.0"


ODD = """
import sys, types
class Raising(types.ModuleType):
    def __getattribute__(self, name):
        if name in ("__file__", "__path__"):
            raise ImportError(name)
        return super().__getattribute__(name)
class Anything(types.ModuleType):
    def __getattr__(self, name):
        return Anything(name)
raising = sys.modules["hgoddpkg.raising"] = Raising("hgoddpkg.raising")
sys.modules["hgoddpkg.anything"] = Anything("hgoddpkg.anything")
"""


pytestmark = pytest.mark.slow  # seconds, by a real installer


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("packages")


@pytest.fixture
def home(wheels: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for version in ("1.0", "2.0"):
        wheel(wheels / "wheels", "hgtestpkg", version, f"VERSION = '{version}'\n")
    wheel(wheels / "wheels", "hgbrokenpkg", "1.0", "")
    only_from(wheels / "wheels", wheels / "home", monkeypatch)
    return wheels / "home"


def context() -> Any:
    return SimpleNamespace(environment={"PYTHONHASHSEED": "0"}, master="local[2]")


def seen() -> str:
    import hgtestpkg  # type: ignore[import-not-found]  # there while it is required

    return str(hgtestpkg.VERSION)


def test_each_set_has_a_folder_that_is_made_once(home: Path) -> None:
    folders = [packages.folder_of([text], home) for text in (ONE, TWO, ONE)]
    assert folders[0] == folders[2] != folders[1]
    assert sorted(p.name for p in folders[0].iterdir() if not p.name.startswith("_")) == [
        *("hgtestpkg-1.0.dist-info", "hgtestpkg.py"),
    ]


def test_code_sees_what_it_requires_and_nothing_of_others(home: Path) -> None:
    spark = context()
    for requirements, version in (([ONE], "1.0"), ([TWO], "2.0"), ([ONE], "1.0")):
        with seeing(requirements, spark):
            assert seen() == version
            assert spark.environment[PATH] == str(packages.folder_of(requirements, home))
        with seeing([], spark), pytest.raises(ModuleNotFoundError):
            seen()
        assert spark.environment == {"PYTHONHASHSEED": "0"}
        assert "hgtestpkg" not in sys.modules
        assert not [path for path in sys.path if path.startswith(str(home))]


def test_a_set_is_loaded_once(home: Path) -> None:
    found = []
    for _ in range(2):
        with seeing([ONE], context()):
            seen()
            found.append(sys.modules["hgtestpkg"])
    assert found[0] is found[1]


def test_tasks_of_one_set_run_together_and_others_wait(home: Path) -> None:
    spark, both, over = context(), threading.Barrier(3, timeout=20), threading.Event()
    told: list[str] = []

    def run(requirement: str) -> None:
        with seeing([requirement], spark):
            if requirement == ONE:
                both.wait()
                over.wait(20)
            told.append(seen())

    threads = [threading.Thread(target=run, args=(text,)) for text in (ONE, ONE, TWO)]
    packages.folder_of([TWO], home)
    for thread in threads[:2]:
        thread.start()
    both.wait()  # two are inside
    threads[2].start()
    over.set()
    for thread in threads:
        thread.join(20)
    assert told == ["1.0", "1.0", "2.0"]


def test_modules_may_answer_anything(home: Path) -> None:
    """As torch.classes does, which has every attribute."""
    wheel(home.parent / "wheels", "hgoddpkg", "1.0", ODD)
    for _ in range(2):
        with seeing(["hgoddpkg==1.0"], context()):
            import hgoddpkg  # type: ignore[import-not-found]  # there while it is required

            assert sys.modules["hgoddpkg.raising"].__name__ == hgoddpkg.raising.__name__
    assert not [name for name in sys.modules if name.startswith("hgoddpkg")]
    with seeing([ONE], context()):
        assert seen() == "1.0"


@pytest.mark.parametrize("requirement", ["hgtestpkg==3.0", "hg-not-there==1"])
def test_what_there_is_not_is_an_error_of_the_users(home: Path, requirement: str) -> None:
    with pytest.raises(TaskFailure) as caught:
        packages.folder_of([requirement], home)
    assert (caught.value.condition, caught.value.kind) == ("REQUIREMENTS_NOT_INSTALLED", "user")
    assert requirement.split("==")[0] in caught.value.message
    assert not list((home / "packages").glob("*.new"))


def test_an_index_that_does_not_answer_may_do_so_the_next_time(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PIP_NO_INDEX")
    for name, value in {
        "PIP_INDEX_URL": f"http://127.0.0.1:{free_port()}/simple",
        "PIP_RETRIES": "1",
    }.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(TaskFailure) as caught:
        packages.folder_of(["hgtestpkg==3.0"], home)
    assert caught.value.kind == "infrastructure"
    assert packages.folder_of([ONE], home).is_dir()


def test_a_damaged_package_may_be_whole_the_next_time(home: Path) -> None:
    path = home.parent / "wheels" / "hgbrokenpkg-1.0-py3-none-any.whl"
    whole, _ = path.read_bytes(), path.write_bytes(b"PK\x03\x04")
    with pytest.raises(TaskFailure) as caught:
        packages.folder_of(["hgbrokenpkg==1.0"], home)
    assert caught.value.kind == "infrastructure"
    path.write_bytes(whole)
    assert packages.folder_of(["hgbrokenpkg==1.0"], home).is_dir()


def test_what_the_driver_comes_with_is_there_already(home: Path) -> None:
    version = importlib.metadata.version("PyYAML")
    assert not list(packages.folder_of([f"pyyaml=={version}"], home).iterdir())
    with pytest.raises(TaskFailure) as caught:
        packages.folder_of(["pyyaml==0.1"], home)
    assert caught.value.condition == "REQUIREMENT_CONFLICT"
    assert version in caught.value.message

"""Each case of a sweep runs at one in so many commits, and all run in `make soak`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import settings

from tests import slices


def names(param: object) -> set[str]:
    return {mark.name for mark in param.marks}  # type: ignore[attr-defined]  # pytest's type is not public


def test_commits_in_a_row_run_each_case_once() -> None:
    runs = [slices.sliced(range(20), 4, now=now) for now in range(403, 407)]
    chosen = [p.values[0] for run in runs for p in run if "soak" not in names(p)]
    assert sorted(chosen) == list(range(20))
    assert {len([p for p in run if "soak" not in names(p)]) for run in runs} == {5}


def test_every_case_is_part_of_the_sweep() -> None:
    marked = slices.sliced([pytest.param(1, marks=pytest.mark.slow, id="one"), 2], 2, now=1)
    assert [(p.values, p.id, names(p)) for p in marked] == [
        ((1,), "one", {"sweep", "slow", "soak"}),
        ((2,), None, {"sweep"}),
    ]


def test_commits_in_a_row_go_through_a_loop_once() -> None:
    parts = [slices.part_of("abcdefg", 3, now=now) for now in range(403, 406)]
    assert sorted(case for part in parts for case in part) == list("abcdefg")
    assert {len(part) for part in parts} == {2, 3}


def test_a_loop_is_whole_in_soak() -> None:
    before = settings.get_current_profile_name()
    settings.load_profile("soak")
    try:
        assert slices.part_of("abc", 3) == list("abc")
    finally:
        settings.load_profile(before)


@pytest.mark.parametrize(("given", "number"), [("7", 7), ("0", 0)])
def test_a_number_that_is_given_wins(
    monkeypatch: pytest.MonkeyPatch, given: str, number: int
) -> None:
    monkeypatch.setenv(slices.NAME, given)
    assert slices.turn() == number


def test_it_grows_by_one_with_a_commit(tmp_path: Path) -> None:
    (tmp_path / "slices.py").write_bytes(Path(slices.__file__).read_bytes())
    assert _turn(tmp_path) == 0  # git tells nothing
    _git(tmp_path, "init", "--quiet")
    for number in (1, 2, 3):
        _git(
            tmp_path,
            "-c",
            "user.name=a",
            "-c",
            "user.email=a@b",
            "commit",
            "-q",
            "--allow-empty",
            "-m",
            "one",
        )
        assert _turn(tmp_path) == number


def _git(folder: Path, *arguments: str) -> None:
    subprocess.run(["git", "-C", str(folder), *arguments], check=True)


def _turn(folder: Path) -> int:
    environment = {**os.environ, slices.NAME: "", "GIT_CEILING_DIRECTORIES": str(folder.parent)}
    command = [sys.executable, "-c", "import slices; print(slices.turn())"]
    return int(subprocess.check_output(command, cwd=folder, env=environment, text=True))

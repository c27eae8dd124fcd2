"""When one link to a folder stands for the files in it. What Spark reads through it is tested in
tests/spark/test_folder_links.py."""

from __future__ import annotations

from pathlib import Path

import pytest

from dataplane.fragments.file_links import LinkedFiles

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("there", "named", "is_linked"),
    [
        (["0.parquet", "1.parquet"], ["1.parquet", "0.parquet"], True),
        (["0.parquet", "1.parquet"], ["0.parquet"], False),
        (["0.parquet", "1.parquet"], ["0.parquet", "0.parquet"], False),
        (["0.parquet"], ["0.parquet", "0.parquet"], False),
        (["_0.parquet"], ["_0.parquet"], False),
        (["a:{b}.parquet"], ["a:{b}.parquet"], False),
        (["0.parquet", "c=1/0.parquet"], ["0.parquet"], False),
        (["0.parquet", "c=1/0.parquet"], ["0.parquet", "c=1/0.parquet"], False),
    ],
)
def test_a_folder_is_linked_where_all_in_it_is_named_once(
    tmp_path: Path, there: list[str], named: list[str], *, is_linked: bool
) -> None:
    folder = tmp_path / "_fragment=0"
    for name in there:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()
    links = LinkedFiles(tmp_path / "links")
    links.add_all([f"{folder}/{name}" for name in named], "x")
    assert (links.folder / "_fragment=x").is_symlink() == is_linked
    for alias, target in links.targets.items():
        assert Path(alias).samefile(target)
        assert links.renamed(f"in {alias}: no") == f"in {target}: no"
    assert len(links.targets) == len(named)

"""Paths of a blueprint that was written for a folder find just the files that are meant."""

from __future__ import annotations

from pathlib import Path

import yaml

from controlplane.services.editor import folder_blueprint
from dataplane.listing import glob

NAMES = ("a,b.csv", "a}b.csv", "[1].csv", "{x,y}.csv", "what?.csv", "all*.csv")


def test_names_that_look_like_globs_are_found(tmp_path: Path) -> None:
    home = tmp_path / "in {a,b}" / "[c]"
    home.mkdir(parents=True)
    for name in NAMES:
        (home / name).write_text("a,b\n1,2\n3,4\n")
    (home / "other.csv").write_text("c\nx\ny\n")
    found = _found(tmp_path / "in {a,b}")
    assert sorted(map(sorted, found)) == [sorted(NAMES), ["other.csv"]]


def _found(folder: Path) -> list[set[str]]:
    """The names that the path of each component finds."""
    text = folder_blueprint.blueprint_of(folder, "shop", str(folder))
    paths = [c["read"]["path"] for c in yaml.safe_load(text)["components"].values()]
    return [{Path(file).name for file in glob.find(p, glob.base_folder(p))} for p in paths]

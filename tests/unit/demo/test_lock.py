"""The lock goes with pyproject.toml, and works with whatever package index somebody uses."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parents[3]
LOCKED = re.compile(r"^([\w.-]+)(?:\[[\w,]+\])?==([\w.+!-]+)", re.MULTILINE)


def wanted() -> Iterator[Requirement]:
    """All that pyproject.toml asks for: to run, for extras, to build, to test."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    groups = [project["build-system"]["requires"], project["project"]["dependencies"]]
    groups += [
        *project["project"]["optional-dependencies"].values(),
        *project["dependency-groups"].values(),
    ]
    return (Requirement(text) for group in groups for text in group if isinstance(text, str))


def test_all_that_is_wanted_is_locked() -> None:
    locked = {
        canonicalize_name(name): Version(v)
        for name, v in LOCKED.findall((ROOT / "requirements.lock").read_text())
    }
    missing = [
        str(w)
        for w in wanted()
        if not w.specifier.contains(locked.get(canonicalize_name(w.name), Version("0")))
    ]
    assert missing == [], "run `make lock`"


def test_it_names_no_package_index() -> None:
    for name in ("requirements.lock", "scripts/uv.requirements"):
        assert "://" not in (ROOT / name).read_text()
        assert "--hash=sha256:" in (ROOT / name).read_text()

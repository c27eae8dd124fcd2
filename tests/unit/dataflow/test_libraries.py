"""Libraries that drivers come with, as part of a Python transform's identity."""

from __future__ import annotations

import importlib.metadata
import re
import tomllib
from pathlib import Path

import pytest

from controlplane.core.compile import ids
from controlplane.core.compile.compiler import compile_revisions
from controlplane.core.compile.nodes import Transform
from controlplane.core.model.revisions import Revision
from controlplane.core.python.libraries import LINES

pytestmark = pytest.mark.unit

ROOT = Path(__file__).parents[3]
HEAD = "dataflow: shop\ncomponents:\n  a: {transform: {sql: SELECT 1 AS n}}\n"


def compiled(imports: str, requirements: str = "[]") -> Transform:
    code = f"{imports}\ndef transform(a):\n    return a\n"
    text = f"{HEAD}  b:\n    transform: {{file: b.py, inputs: {{a: all}}, requirements: {requirements}}}\n"
    revision = Revision("main", "shop", 1, text, {"b.py": code}, "/shop.yaml", {}, "", "", 0.0)
    node = compile_revisions([revision]).require().nodes["shop.b"]
    assert isinstance(node, Transform)
    return node


def logic(node: Transform, libraries: dict[str, str], requirements: tuple[str, ...] = ()) -> bytes:
    assert node.bundle is not None
    return ids.transform_logic(
        "python",
        node.bundle.digest,
        {},
        {"a": "all"},
        node.spark,
        1,
        entrypoint="transform",
        requirements=requirements,
        libraries=libraries,
    )


def test_their_majors_are_part_of_what_imports_them() -> None:
    for imports, names in (
        ("import json", ()),
        ("import pandas as pd", ("pandas",)),
        ("from numpy import sum", ("numpy",)),
    ):
        node = compiled(imports)
        assert not node.is_volatile
        assert node.logic == logic(node, {name: LINES[name] for name in names})
    node = compiled("import pandas, pyarrow.compute")
    assert node.logic != logic(node, {"pandas": "3", "pyarrow": LINES["pyarrow"]})


def test_a_required_version_says_it_all() -> None:
    node = compiled("import pandas", "[pandas==2.3.3]")
    assert node.logic == logic(node, {}, ("pandas==2.3.3",))


@pytest.mark.parametrize("name", LINES)
def test_the_majors_are_those_that_are_installed_and_pinned(name: str) -> None:
    assert importlib.metadata.version(name).partition(".")[0] == LINES[name]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    pin = next(line for line in project["dependencies"] if line.startswith(name))
    ends = re.fullmatch(rf"{name}>=(\d+)[.\d]*,<(\d+)", pin)
    assert ends is not None
    least, most = map(int, ends.groups())
    assert (str(least), most) == (LINES[name], least + 1)

"""Which events open pages follow, and what the first rows of a dataset cost."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import controlplane
from controlplane.operations.inspect import records
from controlplane.operations.inspect.records import RecordsRequest
from controlplane.ports.records import Rendering
from controlplane.ui import static_files
from tests.unit.ui.world import filled

EVENT = re.compile(
    r"((blueprint|claim|dataset|driver|listing|operator|partitions|source|task)\.[a-z_]+|branch\.merged)"
)
# Put together where they are told
WISHES = {f"operator.{wish}" for wish in ("pause", "refresh", "resume", "retry")}
LAYERS = ("core", "operations", "reconciler", "store")


def told() -> Iterator[str]:
    """Kinds of events that the code tells."""
    for layer in LAYERS:
        for file in (Path(controlplane.__file__).parent / layer).rglob("*.py"):
            for node in ast.walk(ast.parse(file.read_text())):
                if (
                    isinstance(node, ast.Constant)
                    and isinstance(node.value, str)
                    and EVENT.fullmatch(node.value)
                ):
                    yield node.value


def test_open_pages_follow_every_kind_of_event() -> None:
    script = (static_files.FOLDER / "pages.js").read_text()
    listed = re.search(r"const KINDS = \[(.*?)\];", script, re.DOTALL)
    assert listed is not None
    assert set(re.findall(r'"([a-z_.]+)"', listed[1])) == {*told()} | WISHES


def test_first_rows_open_no_more_partitions_than_they_need(tmp_path: Path) -> None:
    world = filled(tmp_path)
    some = records.first(world.ctx, "main", "shop.orders", 10)
    whole = records.records(world.ctx, "main", "shop.orders", RecordsRequest(), Rendering("json"))
    assert isinstance(whole, records.RowSelection)
    assert 10 <= some.rows < 20
    assert some.selection.files == whole.selection.files[: len(some.selection.files)]
    assert len(some.selection.files) < 6
    every = records.first(world.ctx, "main", "shop.orders", 10_000)
    assert (every.selection.files, every.rows) == (whole.selection.files, whole.rows)

"""What compiling makes of inferred modes and of hints."""

from __future__ import annotations

import pytest

from controlplane.core.compile.compiler import compile_revisions
from controlplane.core.compile.nodes import Transform
from controlplane.core.model.revisions import Revision

pytestmark = pytest.mark.unit

READ = "{{read: {{connector: files, path: /data/{0}, format: csv, schema: 'k INT, v INT'}}}}"
UNION = "SELECT k, v FROM f UNION ALL SELECT k, v FROM g"


def slots(sql: str, hints: str = "{}") -> dict[str, tuple[str, str]]:
    """Mode and reason of each input of a query over f and g."""
    text = "\n".join(
        [
            "dataflow: a",
            "components:",
            f"  f: {READ.format('f')}",
            f"  g: {READ.format('g')}",
            "  out:",
            f"    transform: {{sql: '{sql}', inputs: {hints}}}",
        ]
    )
    node = (
        compile_revisions([Revision("main", "a", 1, text, {}, "/a.yaml", {}, "", "", 0.0)])
        .require()
        .nodes["a.out"]
    )
    assert isinstance(node, Transform)
    return {s.name: (s.mode, s.reason) for s in node.slots}


def test_both_sides_of_a_union_keep_their_partitions() -> None:
    reason = "`each`: every row comes from one row of f or of g"
    assert slots(UNION) == {"f": ("each", reason), "g": ("each", reason)}


def test_a_hint_for_one_side_takes_the_proof_from_the_other() -> None:
    """Each partition of f would get all rows of g."""
    found = slots(UNION, "{g: all}")
    assert {name: mode for name, (mode, _) in found.items()} == {"f": "all", "g": "all"}
    assert found["f"][1].startswith("`all`: g is declared `all`; inferred `each`")
    assert found["g"][1].startswith("declared all; inferred `each`")


def test_what_is_declared_is_what_is_done() -> None:
    found = slots(UNION, "{f: each, g: all}")
    assert {name: mode for name, (mode, _) in found.items()} == {"f": "each", "g": "all"}
    joined = slots("SELECT f.k FROM f JOIN g ON f.k = g.k", "{f: all}")
    assert {name: mode for name, (mode, _) in joined.items()} == {"f": "all", "g": "all"}

"""Required packages as part of a Python transform: of its identity, and of what it may import."""

from __future__ import annotations

from controlplane.core.compile.compiler import compile_revisions
from controlplane.core.compile.nodes import Transform
from controlplane.core.model.revisions import Revision
from controlplane.core.plan.transform.transform_jobs import logic_job
from dataplane.contract.schemas import struct_of

HEAD = "dataflow: shop\ncomponents:\n  a: {transform: {sql: SELECT 1 AS n}}\n"
CODE = "import humanize, attrs.validators\ndef transform(a):\n    return a\n"


def compiled(requirements: str, code: str = CODE) -> Transform:
    more = f"\n      requirements: {requirements}" if requirements else ""
    text = f"{HEAD}  b:\n    transform:\n      file: b.py\n      inputs: {{a: all}}{more}\n"
    revision = Revision("main", "shop", 1, text, {"b.py": code}, "/shop.yaml", {}, "", "", 0.0)
    node = compile_revisions([revision]).require().nodes["shop.b"]
    assert isinstance(node, Transform)
    return node


def test_they_belong_to_the_logic_in_any_order() -> None:
    both = compiled("[humanize==4.9.0, attrs==25.1]")
    assert both.logic == compiled("[Attrs==25.1, Humanize==4.9.0]").logic
    others = ["[humanize==4.9.0]", "[humanize==4.9.1, attrs==25.1]", "[]", ""]
    assert len({both.logic, *(compiled(text).logic for text in others)}) == 4
    job = logic_job(both, {"a": struct_of([])})
    assert job["language"] == "python"
    assert job["requirements"] == ["attrs==25.1", "humanize==4.9.0"]


def test_imports_of_what_is_required_are_no_chance() -> None:
    assert not compiled("[humanize==4.9.0, attrs==25.1]").is_volatile
    assert compiled("[humanize==4.9.0]").is_volatile
    plain = "def transform(a):\n    return a\n"
    assert "requirements" not in logic_job(compiled("[]", plain), {"a": struct_of([])})

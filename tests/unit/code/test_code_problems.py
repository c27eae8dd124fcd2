"""Code that is refused, and what an entrypoint may look like."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.core.python.code import CodeProblem, analyse

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("text", "code", "line", "column"),
    [
        ("def transform(a:\n    pass", "invalid-python", 1, 14),
        ("def transform(a):\n  return a +", "invalid-python", 2, 13),
        ("x = 'abc", "invalid-python", 1, 5),
        ("", "missing-entrypoint", 1, 1),
        ("transform = print", "missing-entrypoint", 1, 1),
        ("class A:\n  def transform(a): pass", "missing-entrypoint", 1, 1),
        ("async def transform(a): pass", "missing-entrypoint", 1, 1),
        ("def transform(a,\n              *rest): pass", "unsupported-signature", 2, 16),
        ("def transform(a, **rest): pass", "unsupported-signature", 1, 20),
        ("def transform(a, /, b): pass", "unsupported-signature", 1, 15),
    ],
)  # fmt: skip
def test_refused(text: str, code: str, line: int, column: int) -> None:
    with pytest.raises(CodeProblem) as caught:
        analyse({"main.py": text}, "main.py", "transform")
    assert (caught.value.code, caught.value.file) == (code, "main.py")
    assert (caught.value.line, caught.value.column) == (line, column)


@pytest.mark.parametrize(
    "text",
    ["-" * 100_000 + "1", "x = " + "(" * 5000 + ")" * 5000, "\0", "x = '\ud800'"],
    ids=["deep", "parentheses", "null", "surrogate"],
)
def test_hostile_text_is_a_problem(text: str) -> None:
    with pytest.raises(CodeProblem) as caught:
        analyse({"main.py": text}, "main.py", "transform")
    assert caught.value.code == "invalid-python"


def test_a_problem_names_its_module() -> None:
    modules = {"main.py": "def transform(a): pass", "lib.py": "def"}
    with pytest.raises(CodeProblem) as caught:
        analyse(modules, "main.py", "transform")
    assert caught.value.file == "lib.py"


def test_a_missing_main_module() -> None:
    with pytest.raises(CodeProblem) as caught:
        analyse({"lib.py": "x = 1"}, "main.py", "transform")
    assert caught.value.code == "missing-entrypoint"


def test_arguments() -> None:
    bundle = analyse({"m.py": "def go(a, b=1, *, params, spark=None): pass"}, "m.py", "go")
    assert bundle.arguments == ("a", "b", "params", "spark")
    assert bundle.optional == {"b", "spark"}


def test_the_last_definition_is_the_entrypoint() -> None:
    assert analyse({"m.py": "def go(a): pass\ndef go(b): pass"}, "m.py", "go").arguments == ("b",)


def test_long_chains_are_no_problem() -> None:
    text = "x = " + " + ".join(["1"] * 500) + "\ndef transform(a): pass"
    assert analyse({"main.py": text}, "main.py", "transform").arguments == ("a",)


def _refusal(text: str) -> CodeProblem | None:
    try:
        analyse({"main.py": text}, "main.py", "transform")
    except CodeProblem as problem:
        return problem
    return None


@given(st.text())
def test_any_text_is_a_bundle_or_a_problem(text: str) -> None:
    problem = _refusal(text)
    assert problem is None or (problem.line >= 1 and problem.column >= 1)

"""Which edits of Python code keep its digest, on every version of Python that we run on."""

from __future__ import annotations

import ast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.core.python.code import analyse

pytestmark = pytest.mark.unit

# Computed on Python 3.11, and seen to be the same on 3.12, 3.13 and 3.14.
# Whoever has to change one: that is a new tag, and every Python transform runs again.
GOLDEN = {
    "def transform(delays):\n    return delays.groupBy('carrier').count()\n": (
        "e42cf233658dc1857a9f9af2a3a462fe636fc5400a47640eafe56c1f2807a8f7"
    ),
    'def transform(a):\n    return f"{a:}{a!s:{a}>{a}}" "b" f"" f"{{x}}{a=}" f"{ a = }"\n': (
        "6da2bdd7e24aaab39b08e54b0a18f377ebab8ae890903d720b84186b2b505471"
    ),
    (
        "from pyspark.sql import DataFrame, functions as F\n"
        "LIMIT: float = 1.5\n"
        "@staticmethod\n"
        "def helper(x, /, y=1, *args, z: int = 2, **kw) -> str:\n"
        "    '''Words.'''\n"
        "    return f'{x!r:>{y}} and {y:} of {z=}' f'' 'tail' if not kw else (r'\\d', b'x'.decode())\n"
        "class Names(dict, metaclass=type):\n"
        "    a = b = {**{}, None: ..., True: 2j, 'k': [1, -2, 0xFF], (): {*()}}\n"
        "async def later():\n"
        "    async with a as b, c:\n"
        "        await b\n"
        "def transform(flights, airlines, *, params=None):\n"
        "    match params:\n"
        "        case {'a': [1, *rest], **more} if rest: pass\n"
        "        case None | str(real=0): raise ValueError from None\n"
        "    try:\n"
        "        xs = [i for i in range(3) if i % 2 for _ in 'ab']\n"
        "    except* (TypeError, KeyError) as e:\n"
        "        del e\n"
        "    else:\n"
        "        global LIMIT\n"
        "    while (n := len(xs)) > 0: xs.pop(); continue\n"
        "    return flights.join(airlines, 'carrier').where(lambda r, *s: r[1:2, ::3] is not None)\n"
    ): "c62108adf190daf966011cfc086f8c22f931db9ccae0cd08599d738a5f7b6a68",
}  # fmt: skip


def digest(text: str, **others: str) -> bytes:
    return analyse({"main.py": text, **others}, "main.py", "transform").digest


@pytest.mark.parametrize(("text", "expected"), GOLDEN.items(), ids=["small", "f-strings", "large"])
def test_golden(text: str, expected: str) -> None:
    assert digest(text).hex() == expected


BASE = "def transform(a):\n    x = f'{a:>10}' + 'b'\n    return x\n"


@pytest.mark.parametrize(
    "text",
    [
        "# note\n\ndef transform(a):  # of a\n\n    x = (f'{a:>10}'\n         + \"b\")\n    return (x)\n",
        "'''Module.'''\ndef transform(a):\n    \"\"\"What.\"\"\"\n    x = f'{a:>10}' + u'b'\n    return x",
        "def transform(a):\n\tx = f\"{a:>10}\" + '' 'b'; return x",
        "\ufeffdef transform(\n    a,\n):\n    x = F'{ a:>10}' + r'b'\n    return x\n".replace(
            "F'{ a", "F'{a"
        ),
        "def transform(a):\r\n    x = f'' f'{a:>10}' + f'b'\r\n    return x\r\n",
    ],
)
def test_what_does_not_count(text: str) -> None:
    assert digest(text) == digest(BASE)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("x = 1", "x = 2"),
        ("x = 1", "x = 1.0"),
        ("x = 1", "x = True"),
        ("x = 'a'", "x = b'a'"),
        ("x = 0.0", "x = -0.0"),
        ("x = 0", "x = None"),
        ("x = 1", "y = 1"),
        ("x = a.b", "x = a.B"),
        ("x = {**a}", "x = {None: a}"),
        ("def f(*, a): pass", "def f(*, a=None): pass"),
        ("def f(a=1): pass", "def f(a=2): pass"),
        ("def f(a): pass", "def f(a, /): pass"),
        ("def f(): pass", "async def f(): pass"),
        ("def f(a: int): pass", "def f(a: str): pass"),
        ("x = f'{a}'", "x = f'{a!r}'"),
        ("x = f'{a:>1}'", "x = f'{a:>2}'"),
        ("x = f'{a}b'", "x = f'b{a}'"),
        ("x = f'{a}'", "x = '{a}'"),
        ("x = [1, [2]]", "x = [[1], 2]"),
        ("x = a < b < c", "x = (a < b) < c"),
        ("x = (1, 2)", "x = [1, 2]"),
        ("from a import b", "from .a import b"),
        ("from .a import b", "from ..a import b"),
        ("import a", "import a as b"),
        ("x: int", "(x): int"),
        ("return_ = 1\n'words'", "return_ = 1\n'other words'"),
        ("if a:\n  b\nelse:\n  c", "if a:\n  b\nc"),
        ("for a in b:\n  c\nelse:\n  d", "for a in b:\n  c\n  d"),
        ("match a:\n  case None: b", "match a:\n  case _: b"),
        ("match a:\n  case None: b", "match a:\n  case False: b"),
        ("try:\n  a\nexcept b:\n  c", "try:\n  a\nexcept* b:\n  c"),
        ("x = '\\ud800'", "x = '\\ud801'"),
        ("x = lambda: 1", "x = lambda: 2"),
        ("x = not a", "x = -a"),
    ],
)  # fmt: skip
def test_what_counts(a: str, b: str) -> None:
    entry = "\ndef transform(d): return d\n"
    assert digest(a + entry) != digest(b + entry)


def test_modules_and_their_paths_count() -> None:
    one = digest(BASE, **{"lib.py": "x = 1"})
    assert one != digest(BASE)
    assert one != digest(BASE, **{"lib.py": "x = 2"})
    assert one != digest(BASE, **{"other.py": "x = 1"})
    assert one == digest(BASE, **{"lib.py": "x = 1  # one"})


def test_the_entrypoint_counts() -> None:
    modules = {"main.py": "def a(d): return d\ndef b(d): return d\n"}
    assert analyse(modules, "main.py", "a").digest != analyse(modules, "main.py", "b").digest


def test_no_docstring_is_only_skipped_where_there_is_one() -> None:
    assert digest("x = 1\n'text'\n" + BASE) != digest("x = 1\n" + BASE)
    assert digest("b'text'\n" + BASE) != digest(BASE)


# Code made of pieces, printed by Python itself: another layout of the same tree.
_names = st.sampled_from(["a", "b", "data"])
_atoms = st.one_of(_names, st.integers(0, 99).map(str), st.text("xy\n'\"", max_size=3).map(repr))


def _combined(parts: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(
        st.tuples(parts, parts).map(lambda p: f"({p[0]} +\n {p[1]})"),
        st.lists(parts, max_size=3).map(lambda p: "[" + " ,".join(p) + "]"),
        st.tuples(_names, parts).map(lambda p: f"{p[0]}.f( {p[1]} )"),
        st.tuples(parts, parts).map(lambda p: f"({p[0]}  if  b else({p[1]}))"),
    )


_expressions = st.recursive(_atoms, _combined, max_leaves=8)


@given(st.lists(_expressions, min_size=1, max_size=4))
def test_layout_does_not_count(expressions: list[str]) -> None:
    text = "def transform(a, b, data):\n" + "".join(
        f"    v{i} = {e}\n" for i, e in enumerate(expressions)
    )
    assert digest(text) == digest(ast.unparse(ast.parse(text)))


@given(_expressions, _expressions)
def test_equal_digests_mean_equal_trees(one: str, other: str) -> None:
    entry = "\ndef transform(d): return d\n"
    equal = ast.dump(ast.parse(f"x = {one}")) == ast.dump(ast.parse(f"x = {other}"))
    assert (digest(f"x = {one}" + entry) == digest(f"x = {other}" + entry)) == equal


def test_inline_code_has_no_name_of_its_own() -> None:
    """It is called as its component is: a renamed one, or another of the same code, computes
    nothing."""
    text, helper = (
        "import lib\ndef transform(a):\n    return lib.f(a)\n",
        "def f(a):\n    return a\n",
    )

    def digest(main: str, is_inline: bool) -> bytes:
        return analyse(
            {main: text, "lib.py": helper}, main, "transform", is_inline=is_inline
        ).digest

    assert digest("x.py", is_inline=True) == digest("a.py", is_inline=True)
    assert digest("x.py", is_inline=False) != digest("a.py", is_inline=False)
    assert digest("x.py", is_inline=True) != digest("x.py", is_inline=False)

"""Python transforms as text: identity, the entrypoint's arguments, and what makes their results
volatile.

Code is parsed here, never imported or run.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby

from controlplane.core.errors import HeadgateError
from controlplane.core.python import libraries
from controlplane.core.python.syntax_words import syntax_words
from controlplane.core.python.volatility import VolatileCode, module_of, volatile
from dataplane.contract.encoding import digest

_MOST_NAMES = 10
_LEFT_OUT = frozenset({"ctx", "type_comment"})
_DOCUMENTED = (ast.Module, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


class CodeProblem(HeadgateError):
    """Code that is refused. Lines and columns count from 1 in the module's own text."""

    def __init__(
        self, code: str, message: str, file: str, line: int = 1, column: int = 1, hint: str = ""
    ) -> None:
        super().__init__(message)
        self.code, self.message, self.file, self.line, self.column, self.hint = (
            code,
            message,
            file,
            line,
            column,
            hint,
        )


@dataclass(frozen=True, slots=True)
class CodeBundle:
    """All modules of a transform. `optional` are the arguments that have a default; `libraries`
    those of the driver that the code imports and does not require in a version of its own. `places`
    are lines and columns of the arguments, each where it stands in the main module."""

    digest: bytes
    arguments: tuple[str, ...]
    optional: frozenset[str]
    volatile: tuple[VolatileCode, ...]
    libraries: frozenset[str] = frozenset()
    places: tuple[tuple[int, int], ...] = ()


def analyse(
    modules: Mapping[str, str],
    main: str,
    entrypoint: str,
    requirements: Iterable[str] = (),
    *,
    is_inline: bool = False,
) -> CodeBundle:
    """Read modules (path -> text). Raises CodeProblem, and nothing else, for what cannot be run as
    a transform.

    `is_inline`: the name of `main` was not given, and is no part of its identity then.
    """
    required = tuple(requirements)
    trees = {path: _parse(path, modules[path]) for path in sorted(modules)}
    function = _entrypoint(trees, main, entrypoint)
    arguments, optional = _arguments(main, function)
    named = (*function.args.args, *function.args.kwonlyargs)
    names = {path: "" if is_inline and path == main else path for path in trees}
    return CodeBundle(
        digest=digest(
            "python/1",
            modules=[
                (names[path], list(_facts(trees[path])))
                for path in sorted(trees, key=names.__getitem__)
            ],
            main=names[main],
            entrypoint=entrypoint,
        ),
        arguments=arguments,
        optional=optional,
        volatile=tuple(volatile(trees, required)),
        libraries=libraries.imported(trees) - {module_of(text) for text in required},
        places=tuple((arg.lineno, _column(modules[main], arg)) for arg in named),
    )


def _parse(path: str, text: str) -> ast.Module:
    try:
        return ast.parse(text.removeprefix("\ufeff"), filename=path)
    except SyntaxError as e:
        message, hint = syntax_words(e.msg or "")
        raise CodeProblem(
            "invalid-python", message, path, e.lineno or 1, max(e.offset or 1, 1), hint
        ) from e
    except ValueError as e:
        message = "the code holds a character that no text can have: NUL, or half a surrogate pair"
        raise CodeProblem(
            "invalid-python", message, path, hint="leave it out, or write an escape"
        ) from e
    except (RecursionError, MemoryError):
        raise CodeProblem("invalid-python", "the code is nested too deeply", path) from None


# --- entrypoint -----------------------------------------------------------------------------------


def _entrypoint(trees: Mapping[str, ast.Module], main: str, name: str) -> ast.FunctionDef:
    if main not in trees:
        raise CodeProblem("missing-entrypoint", f"the bundle has no module {main}", main)
    functions = [
        node for node in trees[main].body if isinstance(node, ast.FunctionDef) and node.name == name
    ]
    if not functions:
        message = f"{main} defines no function {name!r} at its top level"
        raise CodeProblem(
            "missing-entrypoint", message, main, hint=_entrypoint_hint(trees[main], name)
        )
    return functions[-1]


def _entrypoint_hint(tree: ast.Module, name: str) -> str:
    """Which functions there are, or why one of this name is none."""
    if any(isinstance(node, ast.AsyncFunctionDef) and node.name == name for node in tree.body):
        return "an entrypoint is no coroutine: leave out `async`"
    there = [node.name for node in tree.body if isinstance(node, ast.FunctionDef)][:_MOST_NAMES]
    if not there:
        return f"write def {name}(...)"
    return f"there is {', '.join(there)}: name it as `entrypoint:`, or write def {name}(...)"


def _column(text: str, node: ast.arg) -> int:
    """In characters, where Python counts bytes."""
    line = text.removeprefix("\ufeff").splitlines()[node.lineno - 1]
    return len(line.encode()[: node.col_offset].decode(errors="replace")) + 1


def _arguments(main: str, function: ast.FunctionDef) -> tuple[tuple[str, ...], frozenset[str]]:
    spec = function.args
    for arg in (spec.vararg, spec.kwarg, *spec.posonlyargs):
        if arg is not None:
            message = f"arguments are bound by name, so {function.name} cannot take {arg.arg!r} in this way"
            hint = "name each input: no *args, **kwargs, or arguments before /"
            raise CodeProblem(
                "unsupported-signature", message, main, arg.lineno, arg.col_offset + 1, hint
            )
    defaulted = [arg.arg for arg in spec.args[len(spec.args) - len(spec.defaults) :]]
    defaulted += [
        arg.arg
        for arg, value in zip(spec.kwonlyargs, spec.kw_defaults, strict=True)
        if value is not None
    ]
    return tuple(arg.arg for arg in (*spec.args, *spec.kwonlyargs)), frozenset(defaulted)


# --- identity -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Close:
    """The end of a node or list on the stack of parts still to be encoded."""


def _facts(tree: ast.AST) -> Iterator[object]:
    """The tree as a flat run of plain values, opened and closed, so that no depth of nesting
    matters.

    The same on Python 3.11 to 3.14: fields that are empty are left out (newer versions add such
    fields), in order of their names, and the pieces of f-strings are joined.
    """
    stack: list[object] = [tree]
    while stack:
        match stack.pop():
            case _Close():
                yield None
            case ast.Constant(value=value) | ast.MatchSingleton(value=value):
                yield _constant(value)
            case ast.JoinedStr(values=values) if (text := _plain_text(values)) is not None:
                yield _constant(text)
            case ast.AST() as node:
                yield True, type(node).__name__
                stack.append(_Close())
                stack += reversed(
                    [item for name in sorted(node._fields) for item in _field(node, name)]
                )
            case None:
                yield ("absent",)  # in a list, where None as a value is a Constant
            case list() as items:
                yield True
                stack.append(_Close())
                stack += reversed(items)
            case plain:
                yield _constant(plain)


def _field(node: ast.AST, name: str) -> tuple[object, ...]:
    """A field's name and value; nothing for one that is left out or empty."""
    value = getattr(node, name, None)
    if name == "body" and isinstance(node, _DOCUMENTED):
        value = _without_docstring(node.body)
    if isinstance(node, ast.JoinedStr):
        value = _joined(node.values)
    is_empty_format = (
        name == "format_spec"
        and isinstance(value, ast.JoinedStr)
        and _plain_text(value.values) == ""
    )
    if (
        name in _LEFT_OUT
        or is_empty_format
        or value is None
        or value == []
        or (value == 0 and isinstance(value, int))
    ):
        return ()
    return f"{name}:", value


def _without_docstring(body: list[ast.stmt]) -> list[ast.stmt]:
    match body:
        case [ast.Expr(value=ast.Constant(value=str())), *rest]:
            return rest
        case _:
            return body


def _plain_text(values: list[ast.expr]) -> str | None:
    """The text of an f-string that formats nothing."""
    texts = [v.value for v in values if isinstance(v, ast.Constant) and isinstance(v.value, str)]
    return "".join(texts) if len(texts) == len(values) else None


def _joined(values: list[ast.expr]) -> list[object]:
    """The pieces of an f-string, with texts that touch as one and empty ones dropped."""
    out: list[object] = []
    for is_text, pieces in groupby(values, key=lambda value: isinstance(value, ast.Constant)):
        run = list(pieces)
        if not is_text:
            out += run
        elif text := _plain_text(run):
            out.append(text)
    return out


def _constant(value: object) -> tuple[str, ...] | tuple[str, object]:
    match value:
        case bool() | None:
            return "constant", value
        case int():
            return "int", hex(value)  # decimal digits are limited
        case complex():
            return "complex", (value.real, value.imag)
        case str():
            return "str", value.encode("utf-8", "surrogatepass")
        case float() | bytes():
            return type(value).__name__, value
        case _ if value is ...:
            return ("...",)
        case _:
            raise TypeError(f"no constant of Python: {type(value).__name__}")

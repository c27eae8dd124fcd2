"""A user's Python modules as modules of one task: imported under names of our own, gone afterwards.

Two tasks may run two versions of one module side by side, so the names that users import are
resolved by each module's own `__import__`, and `sys.modules` holds them under names that no other
task has. Functions in them travel to Python workers by value.
"""

from __future__ import annotations

import builtins
import linecache
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import PurePosixPath
from types import CodeType, ModuleType
from typing import Any

from pyspark import cloudpickle

_NUMBERS = count()


class Bundle:
    """`modules`: texts by path. They are found by their path from `main`'s folder, and by their
    whole path."""

    def __init__(self, modules: Mapping[str, str], main: str) -> None:
        self._texts, self._main = dict(modules), main
        self._root = f"_headgate_{next(_NUMBERS)}"
        self._paths = _names(modules, main)
        self._loaded: dict[str, ModuleType] = {}

    @property
    def files(self) -> dict[str, str]:
        """The user's name of each file, by the name under which it is compiled."""
        return {self._compiled(path): path for path in self._texts}

    def load(self) -> ModuleType:
        return self._module(self._main)

    def close(self) -> None:
        for module in self._loaded.values():
            cloudpickle.unregister_pickle_by_value(module)  # type: ignore[no-untyped-call]  # pyspark's own copy
            sys.modules.pop(module.__name__, None)
        for name in self.files:
            linecache.cache.pop(name, None)

    def _compiled(self, path: str) -> str:
        return f"<{self._root}>/{path}"

    def _module(self, path: str) -> ModuleType:
        """The module of a file, run once. A cycle sees the names defined so far, as everywhere in
        Python."""
        if path in self._loaded:
            return self._loaded[path]
        dotted = _dotted(path)
        module = ModuleType(f"{self._root}.{dotted}")
        is_package = PurePosixPath(path).name == "__init__.py"
        module.__dict__.update(
            __file__=self._compiled(path),
            __package__=dotted if is_package else dotted.rpartition(".")[0],
            __builtins__={**vars(builtins), "__import__": self._import},
        )
        self._loaded[path] = sys.modules[module.__name__] = module
        cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]  # pyspark's own copy
        text = self._texts[path]
        linecache.cache[self._compiled(path)] = (
            len(text),
            None,
            text.splitlines(keepends=True),
            path,
        )
        exec(self._code(path), module.__dict__)  # noqa: S102  # running users' code is what a driver is for
        return module

    def _code(self, path: str) -> CodeType:
        """Raises SyntaxError, always with the name of the file."""
        name = self._compiled(path)
        try:
            return compile(self._texts[path], name, "exec", dont_inherit=True)
        except SyntaxError as error:
            # Python says no name of a text with a null byte
            error.filename = error.filename or name
            raise

    def _import(
        self,
        name: str,
        globals: Mapping[str, Any] | None = None,
        locals: Mapping[str, Any] | None = None,
        fromlist: Sequence[str] | None = (),
        level: int = 0,
    ) -> Any:
        full = (
            _absolute(name, str((globals or {}).get("__package__") or ""), level) if level else name
        )
        if full not in self._paths and level == 0:
            return builtins.__import__(name, globals, locals, fromlist or (), level)
        if full not in self._paths:
            raise ModuleNotFoundError(f"no module {full!r} in the bundle", name=full)
        module = self._package(full)
        for part in fromlist or ():
            if f"{full}.{part}" in self._paths and not hasattr(module, part):
                setattr(module, part, self._package(f"{full}.{part}"))
        return module if fromlist else self._top(full)

    def _package(self, name: str) -> ModuleType:
        """The module of a dotted name; an empty one for a folder without a file of its own."""
        path = self._paths[name]
        return self._module(path) if path else self._folder(name)

    def _folder(self, name: str) -> ModuleType:
        key = f"{name}/"
        if key not in self._loaded:
            module = ModuleType(f"{self._root}.{name}")
            self._loaded[key] = sys.modules[module.__name__] = module
            cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]  # pyspark's own copy
        return self._loaded[key]

    def _top(self, name: str) -> ModuleType:
        """The module that `import a.b` binds: `a`, with `b` in it."""
        parts = name.split(".")
        top = module = self._package(parts[0])
        for i in range(1, len(parts)):
            child = self._package(".".join(parts[: i + 1]))
            setattr(module, parts[i], child)
            module = child
        return top


@contextmanager
def opened(modules: Mapping[str, str], main: str) -> Iterator[Bundle]:
    bundle = Bundle(modules, main)
    try:
        yield bundle
    finally:
        bundle.close()


def _names(modules: Mapping[str, str], main: str) -> dict[str, str]:
    """Importable names to paths; the empty path for folders. Names from `main`'s folder win."""
    folder = PurePosixPath(main).parent
    names: dict[str, str] = {}
    for root in (PurePosixPath(""), folder):
        for path in modules:
            if PurePosixPath(path).is_relative_to(root):
                dotted = _dotted(str(PurePosixPath(path).relative_to(root)))
                parts = dotted.split(".")
                for i in range(1, len(parts)):
                    names.setdefault(".".join(parts[:i]), "")
                names[dotted] = path
    return names


def _dotted(path: str) -> str:
    parts = list(PurePosixPath(path).with_suffix("").parts)
    if parts[-1:] == ["__init__"] and len(parts) > 1:
        parts.pop()
    return ".".join(parts)


def _absolute(name: str, package: str, level: int) -> str:
    parts = package.split(".") if package else []
    base = parts[: len(parts) - (level - 1)] if level > 1 else parts
    return ".".join([*base, *([name] if name else [])])

"""Which packages the Python code of a driver sees: those that its transform requires, and no other
transform's.

A process has one set of modules, so tasks that require the same share it, and others wait until
they are done. The modules that a set has loaded are put aside and come back with it. Spark's Python
workers get the packages by their environment variables, by which Spark keeps workers apart;
executors that may be elsewhere are sent an archive.
"""

from __future__ import annotations

import importlib
import os
import shutil
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType

from pyspark import SparkContext, SparkFiles

from dataplane.transform import packages

PATH = "PYTHONPATH"


@dataclass(slots=True)
class _Gate:
    """The packages that are visible now: those in `folder` (None: only the driver's own), to
    `inside` tasks. First come, first served: no task overtakes a waiting one."""

    changed: threading.Condition = field(default_factory=threading.Condition)
    folder: Path | None = None
    inside: int = 0
    waiting: list[object] = field(default_factory=list)
    aside: dict[Path, dict[str, ModuleType]] = field(default_factory=dict)

    def enter(self, folder: Path | None, path: str, context: SparkContext) -> None:
        ticket = object()
        with self.changed:
            self.waiting.append(ticket)
            try:
                self.changed.wait_for(
                    lambda: self.waiting[0] is ticket and (not self.inside or self.folder == folder)
                )
            finally:
                self.waiting.remove(ticket)
                self.changed.notify_all()
            if not self.inside:
                self.folder = folder
                self._show(path, context)
            self.inside += 1

    def leave(self, context: SparkContext) -> None:
        with self.changed:
            self.inside -= 1
            if not self.inside:
                self._hide(context)
                self.folder = None
            self.changed.notify_all()

    def _show(self, path: str, context: SparkContext) -> None:
        if self.folder is None:
            return
        sys.path.insert(0, str(self.folder))
        sys.modules.update(self.aside.pop(self.folder, {}))
        importlib.invalidate_caches()
        context.environment[PATH] = path

    def _hide(self, context: SparkContext) -> None:
        if self.folder is None:
            return
        context.environment.pop(PATH, None)
        while str(self.folder) in sys.path:
            sys.path.remove(str(self.folder))
        own = _those_in(self.folder)
        for name in own:
            del sys.modules[name]
        self.aside[self.folder] = own
        importlib.invalidate_caches()


_GATE = _Gate()
_SENDING = threading.Lock()


def _those_in(folder: Path) -> dict[str, ModuleType]:
    """Modules that lie in a folder, and those within them that do not say where they lie."""
    modules = dict(sys.modules)
    places = {name: _places(module) for name, module in modules.items()}
    there = {
        name
        for name, some in places.items()
        if any(place.startswith(f"{folder}{os.sep}") for place in some)
    }
    return {
        name: module
        for name, module in modules.items()
        if name in there or (not places[name] and name.partition(".")[0] in there)
    }


def _places(module: ModuleType) -> list[str]:
    """The places of a module. Some modules give a value or raise for any attribute
    (`torch.classes`)."""
    try:
        paths = [getattr(module, "__file__", None), *(getattr(module, "__path__", None) or ())]
    except Exception:  # noqa: BLE001  # the module's own code
        return []
    return [place for place in paths if isinstance(place, str)]


def _path_of_workers(folder: Path, context: SparkContext) -> str:
    """The import path of Python workers. Executors unpack archives into their working directory, in
    which workers start; workers on the driver's own machine may find the folder itself."""
    if _is_local(str(context.master)):
        return str(folder)
    with _SENDING:
        if not any(archive.endswith(f"#{folder.name}") for archive in context.listArchives):
            archive = shutil.make_archive(
                str(Path(SparkFiles.getRootDirectory()) / folder.name), "zip", folder
            )
            context.addArchive(f"{archive}#{folder.name}")
    return f"{folder.name}{os.pathsep}{folder}"


def _is_local(master: str) -> bool:
    """As Spark sees it: `local-cluster[...]` has executors of its own."""
    return master == "local" or master.startswith("local[")


@contextmanager
def seeing(requirements: Sequence[str], context: SparkContext) -> Iterator[None]:
    """Python code that runs meanwhile, here and on workers, finds these packages and no others
    beyond the driver's own. Raises TaskFailure where they cannot be had."""
    with packages.held(requirements, packages.home()) if requirements else nullcontext() as folder:
        _GATE.enter(folder, "" if folder is None else _path_of_workers(folder, context), context)
        try:
            yield
        finally:
            _GATE.leave(context)

"""Engines of the matrix: where their packages come from, and a process of each that executes
examples.

Does not belong here: the examples, which stand in `docs/readers.md`.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.pages import ROOT
from dataplane.spark import jars
from dataplane.spark.wheels import installed
from tests.jars import delta_classpath, iceberg_classpath

CHILD = Path(__file__).with_name("child.py")
LIMIT_S = 600.0
_INSTALL = re.compile(r"INSTALL (\w+); LOAD \w+")
_PACKAGES = '"spark.jars.packages", ",".join(packages)'

Change = Callable[[str, Path | None], str]


@dataclass(frozen=True)
class Engine:
    """`packages`: whose versions are noted, the engine's own first. `requirements`: a file of
    `tests` with those of its environment; None is the project's own. `adapt`: puts files of the
    cache in place of what an example fetches; it gets the folder of the packages."""

    name: str
    packages: tuple[str, ...]
    requirements: str | None = None
    adapt: Change = lambda code, _: code


@dataclass(frozen=True)
class Read:
    """What one engine found: files of Arrow and errors by label, and versions by package."""

    files: Mapping[str, Path]
    errors: Mapping[str, str | None]
    versions: Mapping[str, str]


def _with_extensions(code: str, packages: Path | None) -> str:
    """DuckDB's, from the package index in place of DuckDB's own."""

    def load(match: re.Match[str]) -> str:
        (file,) = _folder(f"duckdb_extension_{match[1]}", packages).rglob("*.duckdb_extension")
        return f"LOAD '{file}'"

    return _INSTALL.sub(load, code)


def _folder(module: str, packages: Path | None) -> Path:
    if packages is not None:
        return packages / module
    spec = importlib.util.find_spec(module)
    assert spec is not None
    assert spec.submodule_search_locations is not None
    return Path(spec.submodule_search_locations[0])


def _with_jars(code: str, _: Path | None) -> str:
    """Spark's, from the cache; and examples share no catalogue of Iceberg."""
    classpath = os.pathsep.join([delta_classpath(), jars.classpath(jars.S3), iceberg_classpath()])
    local = code.replace(_PACKAGES, f'"spark.driver.extraClassPath", {classpath!r}')
    return local.replace(".getOrCreate()", ".getOrCreate().newSession()")


ENGINES = (
    Engine("DuckDB", ("duckdb",), "readers", _with_extensions),
    Engine("polars", ("polars",), "readers"),
    Engine("pyarrow", ("pyarrow",), "readers"),
    Engine("pyiceberg", ("pyiceberg",), "readers"),
    Engine("deltalake", ("deltalake",), "readers"),
    Engine("Spark", ("pyspark",), None, _with_jars),
    Engine("Daft", ("daft", "pyiceberg"), "daft"),
    Engine("chdb", ("chdb", "chdb-core"), "chdb"),
    Engine("delta-sharing", ("delta-sharing", "pandas"), "delta_sharing"),
)


def read(engine: Engine, codes: Mapping[str, str], scratch: Path) -> Read:
    """Execute code by label in one process of the engine."""
    packages = _packages(engine)
    files = {label: scratch / f"{engine.name}-{number}" for number, label in enumerate(codes)}
    requests = [
        (label, engine.adapt(code, packages), str(files[label])) for label, code in codes.items()
    ]
    answer = json.loads(_run(engine, packages, json.dumps(requests), scratch))
    return Read(files, answer["errors"], answer["versions"])


def _packages(engine: Engine) -> Path | None:
    if engine.requirements is None:
        return None
    return installed(ROOT / "tests" / f"{engine.requirements}.requirements")


def _run(engine: Engine, packages: Path | None, requests: str, scratch: Path) -> str:
    own: Sequence[str] = () if packages is None else ("-S",)
    environment = {**os.environ, "NO_PROXY": "*", "no_proxy": "*", "TZ": "UTC"}
    if packages is not None:
        environment["PYTHONPATH"] = str(packages)
    done = subprocess.run(
        [sys.executable, *own, str(CHILD), *engine.packages],
        input=requests,
        env=environment,
        cwd=scratch,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert done.returncode == 0, f"{engine.name}: {done.stderr[-4000:]}"
    return done.stdout

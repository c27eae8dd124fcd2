"""Engines of the matrix: where their packages come from, and a process of each that executes
examples.

Does not belong here: the examples, which stand in `docs/readers.md`.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from benchmarks.pages import ROOT
from benchmarks.readers.examples import PAGE, properties
from benchmarks.readers.service import Place
from dataplane.spark import jars
from dataplane.spark.wheels import folder_for, installed
from tests.jars import DELTA_CONF, delta_classpath, iceberg_classpath
from tests.servers import trino
from tests.servers.programs import kept

CHILD = Path(__file__).with_name("child.py")
LIMIT_S = 600.0
_INSTALL = re.compile(r"INSTALL (\w+); LOAD \w+")
_PACKAGES = re.compile(r'"spark.jars.packages", f"[^"]+"')
SMALL = {
    "spark.master": "local[2]",
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.host": "127.0.0.1",
    "spark.ui.enabled": "false",
}
SOURCE_ONLY = "spark41"  # pyspark has no wheel

Change: TypeAlias = Callable[[str, Path | None], str]
Serve: TypeAlias = Callable[[Place, Path], AbstractContextManager[Mapping[str, str]]]


def no_server(_: Place, __: Path) -> AbstractContextManager[Mapping[str, str]]:
    return nullcontext({})


@contextmanager
def trino_server(place: Place, folder: Path) -> Iterator[Mapping[str, str]]:
    """Trino with the catalogues of the page. Those of Iceberg have a name for each warehouse."""
    text = PAGE.read_text()
    view = properties("Trino", "catalogue of Delta", text, place)
    iceberg = properties("Trino", "catalogue of Iceberg", text, place)
    names = {"main": "main", "dev": "dev", f"main@{place.time}": "earlier"}
    catalogs = {
        name: {**iceberg, "iceberg.rest-catalog.warehouse": warehouse}
        for warehouse, name in names.items()
    }
    with trino.running(folder, view, catalogs) as server:
        catalogue_names = {f'"{warehouse}"': f'"{name}"' for warehouse, name in names.items()}
        yield {**catalogue_names, "port=8080": f"port={server.url.rpartition(':')[2]}"}


@dataclass(frozen=True)
class Engine:
    """`packages`: whose versions are noted, the engine's own first. `requirements`: a file of
    `tests` with those of its environment; None is the project's own. `adapt`: puts files of the
    cache in place of what an example fetches; it gets the folder of the packages. `server`: runs what the examples
    connect to, and says what to write in place of their addresses. `has_types`: whether tables of
    its client have types of Arrow; otherwise they are read as the types that are expected."""

    name: str
    packages: tuple[str, ...]
    requirements: str | None = None
    adapt: Change = lambda code, _: code
    server: Serve = no_server
    has_types: bool = True


@dataclass(frozen=True)
class Read:
    """What one engine found: files of Arrow and errors by label, and versions by package."""

    files: Mapping[str, Path]
    errors: Mapping[str, str | None]
    versions: Mapping[str, str]


def _with_extensions(code: str, packages: Path | None) -> str:
    """DuckDB's, from the package index in place of DuckDB's own."""
    assert packages is not None

    def load(match: re.Match[str]) -> str:
        folder = packages / f"duckdb_extension_{match[1]}"
        (file,) = folder.rglob("*.duckdb_extension")
        return f"LOAD '{file}'"

    return _INSTALL.sub(load, code)


def _with_jars(code: str, _: Path | None) -> str:
    """Jars of Spark from the cache, and settings for small tables. Examples share no catalogue of
    Iceberg."""
    is_iceberg = "iceberg_jar" in code
    classpath = (
        [iceberg_classpath()] if is_iceberg else [delta_classpath(), jars.classpath(jars.S3)]
    )
    settings = SMALL if is_iceberg else {**DELTA_CONF, **SMALL}
    added = "".join(f".config({name!r}, {value!r})" for name, value in settings.items())
    local = _PACKAGES.sub(f'"spark.driver.extraClassPath", {os.pathsep.join(classpath)!r}', code)
    return local.replace(".getOrCreate()", f"{added}.getOrCreate().newSession()")


ENGINES = (
    Engine("Headgate", ("headgate",)),
    Engine("DuckDB", ("duckdb",), "readers", _with_extensions),
    Engine("polars", ("polars",), "readers"),
    Engine("pyarrow", ("pyarrow",), "readers"),
    Engine("pyiceberg", ("pyiceberg",), "readers"),
    Engine("deltalake", ("deltalake",), "readers"),
    Engine("Spark", ("pyspark",), None, _with_jars),
    Engine("Spark 4.1", ("pyspark",), "spark41", _with_jars),
    Engine("Daft", ("daft",), "daft"),
    Engine("chdb", ("chdb", "chdb-core"), "chdb"),
    Engine("Trino", ("trino",), "trino_client", server=trino_server, has_types=False),
    Engine("delta-sharing", ("delta-sharing", "pandas"), "delta_sharing", has_types=False),
)


def read(engine: Engine, codes: Mapping[str, str], schema: Path, scratch: Path) -> Read:
    """Execute code by label in one process of the engine. `schema`: a file of Arrow with the columns
    that are expected."""
    packages = _packages(engine)
    files = {label: scratch / f"{engine.name}-{number}" for number, label in enumerate(codes)}
    requests = [
        (label, engine.adapt(code, packages), str(files[label])) for label, code in codes.items()
    ]
    answer = json.loads(_run(engine, packages, schema, json.dumps(requests)))
    return Read(files, answer["errors"], answer["versions"])


def _packages(engine: Engine) -> Path | None:
    if engine.requirements is None:
        return None
    requirements = ROOT / "tests" / f"{engine.requirements}.requirements"
    if engine.requirements != SOURCE_ONLY:
        return installed(requirements)
    return kept(folder_for(requirements).name, lambda folder: _build(requirements, folder))


def _build(requirements: Path, folder: Path) -> None:
    uv = subprocess.check_output([ROOT / "scripts" / "find-uv"], text=True).strip()
    install = [uv, "pip", "install", "--quiet", "--require-hashes", "--python", sys.executable]
    subprocess.run([*install, "--target", folder, "-r", requirements], check=True)


def _run(engine: Engine, packages: Path | None, schema: Path, requests: str) -> str:
    own: Sequence[str] = () if packages is None else ("-S",)
    environment = {
        **os.environ,
        "NO_PROXY": "*",
        "no_proxy": "*",
        "TZ": "UTC",
        "PYTHONPATH": str(packages or ROOT),
        "PYSPARK_PYTHON": sys.executable,
    }
    done = subprocess.run(
        [sys.executable, *own, str(CHILD), str(schema), *engine.packages],
        input=requests,
        env=environment,
        cwd=schema.parent,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert done.returncode == 0, f"{engine.name}: {done.stderr[-4000:]}"
    return done.stdout

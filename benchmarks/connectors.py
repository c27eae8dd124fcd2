"""Reading what lies elsewhere, beside what plain Spark and a bare listing take for it; and how late
a stream is.

    python benchmarks/connectors.py [--scale 1] [--rounds 2] [--only csv,parquet,jdbc,kafka,listing]

Scale 1 is 1 GB of CSV on an S3 server, the same rows as Parquet, 5 million rows by JDBC, a minute
of 10,000 messages a second, and 100,000 objects. Prints ratios, appends all numbers to
benchmarks/results/connectors.json, and writes a section of docs/performance.md. Each round has
both. Does not belong here: streams (streams), what the rows are (tests).
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, TypeAlias

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import duckdb
import obstore
from obstore.store import LocalStore

from benchmarks import pages
from benchmarks.processes import timed
from benchmarks.streams import stream
from controlplane import settings
from controlplane.bootstrap import Server
from controlplane.cli import once, sources
from controlplane.lake.lake_objects import LocalObjects
from controlplane.store import open_store, upgrade
from dataplane.listing.files import list_files
from dataplane.listing.version_cache import Versions, cache_file
from dataplane.spark.s3a import place_of
from dataplane.storage.source_stores import StoreAccess, open_root
from tests.jars import delta_classpath
from tests.servers.postgres import Postgres
from tests.servers.s3 import CREDENTIALS, S3
from tests.unit.listing.location import Location

Json: TypeAlias = Any
HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results" / "connectors.json"
ROWS = 12_000_000  # 1 GB of CSV
FILES = 64
TABLE_ROWS = 5_000_000
SLICES = 8
OBJECTS, FOLDERS = 100_000, 200
STREAM_S = 60.0
AGAIN = 2  # reads after the first one, in the same session
COLUMNS = "id BIGINT, day DATE, customer INT, amount DECIMAL(12,2), word STRING"
# `n` is the number of a row
VALUES = """n AS id, DATE '2020-01-01' + CAST(n % 1500 AS INT) AS day, CAST(hash(n) % 100000 AS INT) AS customer,
CAST((hash(n + 1) % 10000000) / 100.0 AS DECIMAL(12,2)) AS amount, md5(CAST(n AS VARCHAR)) AS word"""
WITHOUT_EFFECT: Mapping[str, Sequence[Json]] = {  # on these rows
    "csv": [{"nullValue": "none"}, {"nullValue": "nothing"}],
    "parquet": [{"int96RebaseMode": "CORRECTED"}, {"int96RebaseMode": "LEGACY"}],
}
TARGETS = {
    "csv": 1.25,
    "parquet": 1.2,
    "jdbc": 1.3,
    "stream_s": 5.0,
    "listing": 1.2,
    "planning_ms": 50.0,
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description="Connectors, beside plain Spark and a bare listing."
    )
    parser.add_argument("--scale", type=float, default=1.0, help="of all (1)")
    parser.add_argument("--rounds", type=int, default=2, help="of everything (2)")
    parser.add_argument(
        "--only", type=lambda text: text.split(","), default=list(PARTS), help=",".join(PARTS)
    )
    asked = parser.parse_args()
    result = {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "scale": asked.scale,
        **pages.machine(),
    }
    rounds: list[Json] = [{} for _ in range(asked.rounds)]
    known = pages.known_in(RESULTS)
    for one in rounds:
        for name in asked.only:
            one[name] = _measured(PARTS[name], asked.scale, name)
            _keep([*known, {**result, "rounds": [some for some in rounds if some]}])


def _measured(part: Callable[[Path, float, str], Json], scale: float, name: str) -> Json:
    with TemporaryDirectory(prefix="headgate-bench-") as folder:
        found = part(Path(folder), scale, name)
    print(name, json.dumps(found), flush=True)
    return found


def _keep(results: Sequence[Json]) -> None:
    """After each part: what was measured is not lost if a later one fails."""
    pages.store(RESULTS, results)
    lines = list(_table(results))
    pages.write("connectors", lines)
    print("\n".join(lines), flush=True)


# --- Headgate ---------------------------------------------------------------------------------------


def _ours(place: Path, read: Json, other: Callable[[int], Json]) -> Json:
    """Seconds of a first run with its session, and of reading all again in the same session:
    `other` says how the component differs, so that nothing that was read before is of use."""
    began = time.monotonic()
    with Server(settings.read(place / "home"), "run") as server:
        first = _settled(server, place, read, began)
        again = [
            _settled(server, place, {**read, **other(number)}, time.monotonic())
            for number in range(AGAIN)
        ]
    return {"first": first, "again": again}


def _settled(server: Server, place: Path, read: Json, since: float) -> float:
    text = place / "bench.yaml"
    text.write_text(json.dumps({"dataflow": "bench", "components": {"rows": {"read": read}}}))
    value = once.make(server, once.RunRequest(sources.load([text])), lambda _: None, since=since)
    assert value["state"] == "up_to_date", value
    return float(value["wall_s"])


def _plain(place: Path, job: Json) -> Json:
    command: list[str | Path] = [
        sys.executable,
        HERE / "plain_connectors.py",
        json.dumps(job),
        str(1 + AGAIN),
    ]
    return json.loads(timed(command, errors=place / "plain.err").output)


# --- files ------------------------------------------------------------------------------------------


def _files(place: Path, scale: float, kind: str) -> Json:
    """Of an S3 server on this machine, through S3A on both sides."""
    s3, each = S3(), int(ROWS * scale / FILES)
    form = "FORMAT csv, HEADER" if kind == "csv" else "FORMAT parquet"
    try:
        with duckdb.connect() as database:
            for number in range(FILES):
                rows = (
                    f"SELECT {VALUES} FROM range({number * each}, {(number + 1) * each}) AS r (n)"
                )
                path = s3.home / "data" / "lake" / f"{number:03}.{kind}"
                database.execute(f"COPY ({rows}) TO '{path}' ({form})")
                s3.tag(path)
        s3.start()
        size = sum(file.stat().st_size for file in (s3.home / "data" / "lake").iterdir())
        return {"bytes": size, **_read_of_s3(place, s3, kind)}
    finally:
        s3.remove()


def _read_of_s3(place: Path, s3: S3, kind: str) -> Json:
    options = {"header": "true"} if kind == "csv" else {}
    key, secret = (CREDENTIALS[f"AWS_{name}"] for name in ("ACCESS_KEY_ID", "SECRET_ACCESS_KEY"))
    job = {
        "out": f"{place}/plain",
        "session": {},
        "format": kind,
        "schema": COLUMNS,
        "paths": f"s3a://lake/*.{kind}",
    }
    there = {
        "fs.s3a.endpoint": s3.url, "fs.s3a.endpoint.region": "us-east-1", "fs.s3a.path.style.access": "true",
        "fs.s3a.connection.ssl.enabled": "false", "fs.s3a.access.key": key, "fs.s3a.secret.key": secret,
        "fs.s3a.aws.credentials.provider": "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider",
        "fs.s3a.input.stream.type": place_of({})["fs.s3a.input.stream.type"],
    }  # fmt: skip
    storage = {"access_key_id": "secret://bench/id", "secret_access_key": "secret://bench/key"}
    storage |= {"endpoint": s3.url, "region": "us-east-1"}
    read = {
        "connector": "files",
        "path": f"s3://lake/*.{kind}",
        "format": kind,
        "options": options,
        "schema": COLUMNS,
    }

    def other(number: int) -> Json:
        return {"options": options | WITHOUT_EFFECT[kind][number]}

    with _told(SECRET_BENCH_ID=key, SECRET_BENCH_KEY=secret):
        plain = _plain(place, {**job, "options": {**options, **there}})
        return {"plain": plain, "headgate": _ours(place, {**read, "storage": storage}, other)}


# --- a table ----------------------------------------------------------------------------------------


def _table_of_rows(place: Path, scale: float, _: str) -> Json:
    server, rows = Postgres().start(), int(TABLE_ROWS * scale)
    try:
        server.create("bench")
        _filled(server, rows)
        url = f"jdbc:postgresql://127.0.0.1:{server.port}/bench?user=test"
        bounds = [rows * n // SLICES for n in range(1, SLICES)]
        with _told(SECRET_BENCH_URL=url, SPARK_CONF=json.dumps(_jdbc_session())):
            read = {
                "connector": "jdbc", "url": "secret://bench/url", "table": "rows", "options": {"fetchsize": "10000"},
                "partitioned": {"column": "id", "bounds": bounds},
            }  # fmt: skip
            plain = _plain(place, {**_plain_jdbc(url, bounds), "out": f"{place}/plain"})
            other: Callable[[int], Json] = lambda number: {"table": f"rows{number}"}  # noqa: E731
            return {"rows": rows, "plain": plain, "headgate": _ours(place, read, other)}
    finally:
        server.remove()


def _filled(server: Postgres, rows: int) -> None:
    import psycopg

    values = """n::int8 AS id, DATE '2020-01-01' + (n % 1500)::int AS day, (n * 7919::int8 % 100000)::int AS customer,
    (n % 10000000 / 100.0)::numeric(12,2) AS amount, md5(n::text) AS word"""
    with psycopg.connect(
        f"host=127.0.0.1 port={server.port} user=test dbname=bench", autocommit=True
    ) as connection:
        connection.execute(
            f"CREATE TABLE rows AS SELECT {values} FROM generate_series(0, {rows - 1}) AS n".encode()
        )
        connection.execute("CREATE INDEX ON rows (id)")
        for number in range(AGAIN):
            connection.execute(f"CREATE TABLE rows{number} AS SELECT * FROM rows".encode())
            connection.execute(f"CREATE INDEX ON rows{number} (id)".encode())
        connection.execute("VACUUM ANALYZE")


def _plain_jdbc(url: str, bounds: Sequence[int]) -> Json:
    """As many connections, as much in one answer."""
    ends = [0, *bounds, 2**62]
    predicates = [f"id >= {first} AND id < {end}" for first, end in pairwise(ends)]
    options = {"fetchsize": "10000", "driver": "org.postgresql.Driver"}
    return {
        "url": url,
        "table": "rows",
        "predicates": predicates,
        "options": options,
        "session": _jdbc_session(),
    }


def _jdbc_session() -> dict[str, str]:
    return {"spark.driver.extraClassPath": delta_classpath()}


class _told:  # noqa: N801  # reads as a word of the language where it is used
    """HEADGATE_ variables, for as long as a server of ours runs."""

    def __init__(self, **values: str) -> None:
        self._values = {f"HEADGATE_{name}": text for name, text in values.items()}

    def __enter__(self) -> None:
        os.environ.update(self._values)

    def __exit__(self, *_: object) -> None:
        for name in self._values:
            del os.environ[name]


# --- listing ----------------------------------------------------------------------------------------


def _listing(place: Path, scale: float, _: str) -> Json:
    """Objects that did not change, in an object store and on a disk, listed by a worker for a
    control plane and by obstore alone; and a plan after that, where all that is on the disk has
    been read."""
    count, folder = int(OBJECTS * scale), place / "data"
    _filled_with_objects(folder, count)
    disk = {"location": f"{folder}/*/*.json", "partition": "{folder}/*.json", "format": "json"}
    read = {
        "connector": "files",
        "path": disk["location"],
        "format": "json",
        "schema": "n INT",
        "refresh": "manual",
    }
    with Server(settings.read(place / "home"), "run") as server:
        wanted = {**read, "partition": disk["partition"]}
        first = _settled(server, place, wanted, time.monotonic())
        unchanged = [_settled(server, place, wanted, time.monotonic()) for _ in range(AGAIN)]
        planned = [_planned(server) for _ in range(5)]
    found = {"objects": count, "first": first, "unchanged": unchanged, "planned": planned}
    return {
        **found,
        "disk": _compared(place / "of a disk", disk, str(folder), count),
        **_in_a_store(place, count),
    }


def _filled_with_objects(folder: Path, count: int) -> None:
    for number in range(FOLDERS):
        (folder / f"f{number:03}").mkdir(parents=True)
    for number in range(count):
        (folder / f"f{number % FOLDERS:03}" / f"{number:07}.json").write_text(
            f'{{"n": {number}}}\n'
        )


def _in_a_store(place: Path, count: int) -> Json:
    s3 = S3().start()
    try:
        for number in range(count):
            s3.lay(f"many/f{number % FOLDERS:03}/{number:07}.json", f'{{"n": {number}}}\n'.encode())
        os.environ.update(s3.environment())
        job = {"location": "s3://lake/many/**/*.json", "partition": None, "format": "text"}
        return _compared(place / "of a store", job, "s3://lake/many", count)
    finally:
        s3.remove()
        for name in s3.environment():
            del os.environ[name]


def _planned(server: Server) -> float:
    began = time.monotonic()
    with server.context("bench").read_plan("main") as (plan, _):
        assert not any(d.items for d in plan.decisions)
    return round(time.monotonic() - began, 4)


def _compared(home: Path, job: Json, place: str, count: int) -> Json:
    """Seconds of obstore, and of a listing from the moment when it is asked for until it is taken
    in, by turns. The first two are those of a location that is new, and of files too fresh to be
    known by their stamps."""
    home.mkdir()
    database = f"sqlite:///{home}/metadata.db"
    upgrade(database)
    with closing(open_store(database)) as store:
        known, cache = Location(store, LocalObjects(home / "lake")), Versions(cache_file(str(home)))
        asked = {"options": {}, "metadata": [], **job}
        found = [
            (_bare(place, count), _took(lambda: _listed(known, asked, cache), count))
            for _ in range(2 + AGAIN)
        ]
    return {"bare": [bare for bare, _ in found], "ours": [ours for _, ours in found]}


def _bare(place: str, count: int) -> float:
    local = not place.startswith("s3:")
    store: Any = LocalStore(place) if local else open_root("s3://lake", StoreAccess())
    prefix = None if local else place.removeprefix("s3://lake/")
    return _took(
        lambda: sum(len(some) for some in obstore.list(store, prefix, chunk_size=1000)), count
    )


def _listed(known: Location, job: Json, cache: Versions) -> int:
    claim = known.claim()
    result = list_files({**claim["job"], **job}, cache, lambda: known.place(claim))
    known.report(claim, result)
    return known.listing.objects


def _took(work: Callable[[], int], count: int) -> float:
    began = time.monotonic()
    assert work() == count
    return round(time.monotonic() - began, 3)


def _kafka(place: Path, scale: float, _: str) -> Json:
    return stream(place, STREAM_S * scale)


PARTS: Mapping[str, Callable[[Path, float, str], Json]] = {
    "csv": _files,
    "parquet": _files,
    "jdbc": _table_of_rows,
    "kafka": _kafka,
    "listing": _listing,
}

# --- words ------------------------------------------------------------------------------------------


def ratios(found: Json) -> dict[str, float]:
    """Of one round."""
    told: dict[str, float] = {}
    for name in ("csv", "parquet", "jdbc"):
        if name in found:
            plain, ours = found[name]["plain"], found[name]["headgate"]
            told[f"{name} first"] = ours["first"] / (plain["session"] + plain["read"][0])
            told[name] = median(ours["again"]) / median(plain["read"][1:])
    if "kafka" in found:
        told["stream_s"] = found["kafka"]["median_s"]
    if "listing" in found:
        for name, of in {
            "listing": found["listing"],
            "listing_disk": found["listing"].get("disk"),
        }.items():
            if of:
                told[name] = median(of["ours"][2:]) / median(of["bare"][2:])
        told["planning_ms"] = median(found["listing"]["planned"]) * 1000
    return told


WORDS = {
    "csv first": "CSV on S3, first run / session and script",
    "csv": "CSV on S3, warm / script",
    "parquet first": "the same rows as Parquet on S3, first run / session and script",
    "parquet": "Parquet on S3, warm / script",
    "jdbc first": "rows by JDBC, first run / session and script",
    "jdbc": "JDBC, warm / script",
    "stream_s": "10,000 messages a second: from produced to published, median, s",
    "listing": "listing unchanged objects of an S3 server / by obstore alone",
    "listing_disk": "the same of a disk",
    "planning_ms": "planning after it, ms",
}


def _table(results: Sequence[Json]) -> Iterator[str]:
    """Markdown: of each part the last result at the scale of the last of all."""
    scale = results[-1]["scale"]
    last = {
        name: one
        for one in results
        if one["scale"] == scale
        for name in PARTS
        if any(name in r for r in one["rounds"])
    }
    yield "| what | target | median (worst) | measured |"
    yield "|---|---|---|---|"
    for part in filter(last.__contains__, PARTS):
        rounds = [ratios({part: one[part]}) for one in last[part]["rounds"] if part in one]
        for name in filter(rounds[0].__contains__, WORDS):
            values = [one[name] for one in rounds]
            told = f"{median(values):.2f} ({max(values):.2f})"
            yield f"| {WORDS[name]} | {TARGETS.get(name, '')} | {told} | {_when(last[part], len(rounds))} |"
    yield ""
    yield f"Scale {scale:g}; {pages.where(results[-1])} at the last of them."


def _when(result: Json, rounds: int) -> str:
    return f"{result['at'][:10]}, {result['commit']}, {rounds} x, load {result['load'][0]}"


if __name__ == "__main__":
    for name in [name for name in os.environ if name.startswith("HEADGATE_")]:
        del os.environ[name]
    main()

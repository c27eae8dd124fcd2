"""Lays out the example's raw data: all flights out of New York in 2013, one CSV file per month or
day.

    python -m controlplane.demo.data [--by month|day] FOLDER

gives FOLDER/flights/2013-01.csv (or 2013-01-01.csv), FOLDER/weather/2013-01.csv, and airlines.csv,
airports.csv and planes.csv beside them.
"""

from __future__ import annotations

import argparse
import csv
import io
import sys
import tarfile
import zipfile
from collections import defaultdict
from collections.abc import Iterable, Mapping
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import IO, Literal, TypeAlias, get_args

from controlplane.demo.download import PACKAGE, VERSION, DownloadFailed, archive

By: TypeAlias = Literal["month", "day"]
COLUMNS: Mapping[By, tuple[str, ...]] = {
    "month": ("year", "month"),
    "day": ("year", "month", "day"),
}
DIMENSIONS = ("airlines", "airports", "planes")


def lay_out(folder: Path, by: By = "month") -> None:
    """Write all files below `folder`, fetching the archive first if need be. Files of the same
    names are replaced."""
    with tarfile.open(archive()) as tar:
        for name in DIMENSIONS:
            _replace(folder / f"{name}.csv", _member(tar, f"{name}.csv").read())
        _split(_member(tar, "weather.csv"), folder / "weather", COLUMNS["month"])
        with (
            zipfile.ZipFile(_member(tar, "flights.csv.zip")) as nested,
            nested.open("flights.csv") as flights,
        ):
            _split(flights, folder / "flights", COLUMNS[by])


def _member(tar: tarfile.TarFile, name: str) -> IO[bytes]:
    member = tar.extractfile(f"{PACKAGE}-{VERSION}/{PACKAGE}/data/{name}")
    assert member is not None, name
    return member


def _split(source: IO[bytes], folder: Path, columns: Iterable[str]) -> None:
    """One file per combination of `columns`, named by them (`2013-01.csv`), in the order of the
    source."""
    rows = csv.reader(io.TextIOWrapper(source, encoding="utf-8", newline=""))
    header = next(rows)
    values = itemgetter(*map(header.index, columns))
    texts: dict[tuple[str, ...], io.StringIO] = defaultdict(io.StringIO)
    for key, group in groupby(rows, values):
        csv.writer(texts[key], lineterminator="\n").writerows(group)
    for key, text in texts.items():
        name = "-".join(value.zfill(2) for value in key)
        _replace(folder / f"{name}.csv", (",".join(header) + "\n" + text.getvalue()).encode())


def _replace(path: Path, content: bytes) -> None:
    """Whole or not at all: who lists the folder meanwhile never sees half a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(f".{path.name}.new")
    fresh.write_bytes(content)
    fresh.replace(path)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m controlplane.demo.data", description="Lay out the flights data."
    )
    parser.add_argument(
        "--by",
        choices=get_args(By),
        default="month",
        help="one file of flights per month or per day",
    )
    parser.add_argument("folder", type=Path)
    options = parser.parse_args(arguments)
    try:
        lay_out(options.folder, options.by)
    except DownloadFailed as e:
        sys.stderr.write(f"headgate: {e.code}: {e}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""A blueprint for the files and Delta tables below a folder, as `headgate init --from` writes it.

    shop/orders/2026-11-01.csv     -> orders: files of one folder, one format and equal columns
    shop/events/day=2026-11-01/    -> events: folders `key=value` are columns
    shop/2026/07.json, 08.json     -> shop: numbers and dates in names are not part of the dataset's
    shop/people/_delta_log/        -> people: a Delta table

Columns, types and keys are read off the first rows by DuckDB. They stand in comments: types are
inferred from all files by the first run, unless `schema:` declares them.
"""

from __future__ import annotations

import json
import os
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import duckdb

from controlplane.core.errors import HeadgateError
from dataplane.contract.globs import MOST_ALTERNATIVES

MOST_FILES: Final = 10_000  # that are looked at
SAMPLE_FILES: Final = 200  # of a folder and format: further ones are like the first
SAMPLE_ROWS: Final = 1_000  # of a dataset, for its types and keys
FORMATS: Final[Mapping[str, str]] = {
    ".csv": "csv",
    ".tsv": "csv",
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
    ".parquet": "parquet",
    ".orc": "orc",
    ".avro": "avro",
    ".xlsx": "xlsx",
}
READERS: Final = {"csv": "read_csv", "json": "read_json", "parquet": "read_parquet"}
# DuckDB's names of types that Spark calls otherwise
TYPES: Final = {"VARCHAR": "STRING", "INTEGER": "INT", "BLOB": "BINARY", "UUID": "STRING"}
# A part of a path that is a value and no name: `day=2026-11-01`, `2026`, `2026-11-01`
VALUE: Final = re.compile(r"[^=/]+=[^/]*|[0-9][0-9_.T-]*")


class NothingThere(HeadgateError):
    """A folder has no file that a blueprint could read. The message names the formats."""

    code = "nothing-to-read"


@dataclass(slots=True)
class FolderDataset:
    """Files of one dataset. `pattern`: below the folder. `columns`: names with types of Spark; empty
    where only a run infers them."""

    name: str
    format: str
    pattern: str
    files: list[Path]
    columns: dict[str, str] = field(default_factory=dict)
    options: dict[str, object] = field(default_factory=dict)
    keys: list[str] = field(default_factory=list)


def blueprint_of(folder: Path, dataflow: str, shown: str) -> str:
    """The text of a blueprint. `shown`: the folder as the blueprint names it. Raises NothingThere."""
    datasets = _datasets(folder)
    if not datasets:
        formats = ", ".join(sorted(FORMATS))
        message = f"{folder} has no file of a known format ({formats}) and no Delta table"
        raise NothingThere(f"{message} among its first {MOST_FILES:,} files")
    lines = [
        f"dataflow: {dataflow}",
        f"description: {json.dumps(f'Read from {shown}')}",
        "components:",
    ]
    for dataset in datasets:
        lines += _component(dataset, shown)
    return "\n".join(lines) + "\n"


# --- what lies there ------------------------------------------------------------------------------


def _datasets(folder: Path) -> list[FolderDataset]:
    groups: dict[tuple[Path, str, tuple[str, ...]], list[Path]] = defaultdict(list)
    samples: dict[tuple[Path, str, tuple[str, ...]], FolderDataset] = {}
    samples_of: dict[tuple[Path, str], list[FolderDataset]] = defaultdict(list)
    tables, files = _walk(folder)
    for file in files:
        format = FORMATS[file.suffix.lower()]
        home = _home(folder, file)
        sampled = samples_of[home, format]
        if len(sampled) < SAMPLE_FILES:
            sampled.append(_sampled(file, format))
            sample = sampled[-1]
        else:
            sample = sampled[0]
        group = home, format, tuple(sample.columns)
        groups[group].append(file)
        samples.setdefault(group, sample)
    together: dict[tuple[Path, str], int] = defaultdict(int)
    for home, format, _ in groups:
        together[home, format] += 1
    datasets = [
        FolderDataset(_name(table), "delta", _below(folder, table), [table]) for table in tables
    ]
    for (home, format, columns), members in groups.items():
        dataset = samples[home, format, columns]
        is_alone = together[home, format] == 1
        dataset.files = members
        dataset.pattern = _pattern(folder, home, members, is_alone=is_alone)
        is_folder = is_alone and (home != folder or len(members) > 1)
        dataset.name = _name(home) if is_folder else _name(Path(_stem(members)))
        datasets.append(dataset)
    return _with_own_names(sorted(datasets, key=lambda dataset: dataset.pattern))


def _walk(folder: Path) -> tuple[list[Path], list[Path]]:
    """Delta tables, and files of known formats elsewhere; hidden names are left out."""
    tables: list[Path] = []
    files: list[Path] = []
    for place, folders, names in os.walk(folder):
        if "_delta_log" in folders:
            tables.append(Path(place))
            folders.clear()
            continue
        folders[:] = sorted(name for name in folders if name[0] not in "._")
        shown = (name for name in sorted(names) if name[0] not in "._")
        files += [Path(place, name) for name in shown if Path(name).suffix.lower() in FORMATS]
        if len(files) >= MOST_FILES:
            break
    return tables, files[:MOST_FILES]


def _home(folder: Path, file: Path) -> Path:
    """The folder of the dataset: without folders that are values."""
    home = file.parent
    while home != folder and VALUE.fullmatch(home.name):
        home = home.parent
    return home


def _pattern(folder: Path, home: Path, files: Sequence[Path], *, is_alone: bool) -> str:
    place = "" if home == folder else _escaped(_below(folder, home)) + "/"
    if not is_alone:
        names = sorted(file.relative_to(home).as_posix() for file in files)
        return place + _one_of(names[:MOST_ALTERNATIVES])
    is_nested = any(file.parent != home for file in files)
    suffix = _one_of(sorted({file.suffix for file in files}))
    return f"{place}{'**/' * is_nested}*{suffix}"


def _one_of(texts: Sequence[str]) -> str:
    if len(texts) == 1:
        return _escaped(texts[0])
    return "{" + ",".join(re.sub("[,}]", r"\\\g<0>", _escaped(text)) for text in texts) + "}"


def _escaped(text: str) -> str:
    """A path as a glob that finds just this one."""
    return re.sub(r"[*?\[{\\]", r"\\\g<0>", text)


def _below(folder: Path, path: Path) -> str:
    return path.relative_to(folder).as_posix()


def _stem(files: Sequence[Path]) -> str:
    """The words that the names of the files begin with."""
    words = re.match(r"[^0-9]*", files[0].stem)
    assert words is not None  # it matches the empty text, too
    stem = words.group().rstrip("-_. ")
    if len(files) == 1 or not all(file.stem.startswith(stem) for file in files):
        return files[0].stem
    return stem or files[0].stem


def _name(path: Path) -> str:
    name = re.sub(r"_+", "_", re.sub(r"[^a-z0-9]", "_", path.name.lower())).strip("_")
    return (name if re.match(r"[a-z]", name) else f"data_{name}".rstrip("_"))[:90]


def _with_own_names(datasets: Iterable[FolderDataset]) -> list[FolderDataset]:
    counts: dict[str, int] = {"self": 1}
    ordered = list(datasets)
    for dataset in ordered:
        count = counts[dataset.name] = counts.get(dataset.name, 0) + 1
        if count > 1:
            dataset.name = (
                f"{dataset.name}_{dataset.format}" if count == 2 else f"{dataset.name}_{count}"
            )
    return ordered


# --- columns --------------------------------------------------------------------------------------


def _sampled(file: Path, format: str) -> FolderDataset:
    """The columns, options and keys that the first rows of a file show; none where DuckDB cannot
    read it."""
    sample = FolderDataset("", format, "", [])
    if format == "xlsx":
        sample.options = {"header": True}
    reader = READERS.get(format)
    if reader is None:
        return sample
    with duckdb.connect(config={"autoinstall_known_extensions": False}) as connection:
        try:
            if format == "csv":
                sample.options = _csv_options(connection, file)
            rows = connection.sql(
                f"SELECT * FROM {reader}($1) LIMIT {SAMPLE_ROWS}", params=[str(file)]
            )
            sample.columns = {
                n: _type(str(t)) for n, t in zip(rows.columns, rows.types, strict=True)
            }
            sample.keys = list(_keys(rows))
        except duckdb.Error:
            return sample
    if format == "json" and _is_array(file):
        sample.options["multiLine"] = True
    return sample


def _is_array(file: Path) -> bool:
    with file.open("rb") as start:
        return start.read(64).lstrip().startswith(b"[")


def _csv_options(connection: duckdb.DuckDBPyConnection, file: Path) -> dict[str, object]:
    query = f"SELECT Delimiter, HasHeader FROM sniff_csv($1, sample_size = {SAMPLE_ROWS})"
    sniffed = connection.execute(query, [str(file)]).fetchone()
    assert sniffed is not None  # or it raises
    separator, has_header = sniffed
    options: dict[str, object] = {"header": bool(has_header)}
    if separator != ",":
        options["sep"] = separator
    return options


def _type(kind: str) -> str:
    if kind.startswith("TIMESTAMP"):
        return "TIMESTAMP"
    if kind.startswith("DECIMAL") or kind in TYPES.values() or kind.isalpha():
        return TYPES.get(kind, kind)
    return "STRING" if kind == "TIME" else kind


def _keys(rows: duckdb.DuckDBPyRelation) -> Iterator[str]:
    """Columns without NULL whose values are all different in these rows; `id` columns first."""
    table = rows.to_arrow_table()
    if table.num_rows < 2:
        return
    for name in sorted(table.column_names, key=lambda name: not name.lower().endswith("id")):
        column = table[name]
        is_simple = "list" not in str(column.type) and "struct" not in str(column.type)
        if is_simple and not column.null_count and len(column.unique()) == table.num_rows:
            yield name


# --- text -----------------------------------------------------------------------------------------


def _component(dataset: FolderDataset, shown: str) -> Iterator[str]:
    is_table = dataset.format == "delta"
    place = shown if is_table else _escaped(shown)
    path = f"{place}/{dataset.pattern}" if dataset.pattern != "." else place
    count = len(dataset.files)
    yield f"  {dataset.name}:"
    if not is_table:
        yield f"    # {count:,} file{'s' * (count != 1)}"
        if "{" in dataset.pattern and count > MOST_ALTERNATIVES:
            yield f"    # of which the first {MOST_ALTERNATIVES:,} are named: move them to a folder"
    if dataset.columns:
        columns = ", ".join(f"{_shown(name)} {kind}" for name, kind in dataset.columns.items())
        yield f"    # columns of the first file, as DuckDB guesses them: {_one_line(columns)}"
    if dataset.keys:
        sample = f"different in each of its first rows (up to {SAMPLE_ROWS:,})"
        yield f"    # may be a key: {_one_line(', '.join(dataset.keys[:3]))}, {sample}"
    if folders := _folder_columns(dataset):
        yield f"    # columns of folders: {_one_line(', '.join(folders))}"
    yield "    read:"
    if is_table:
        yield f"      connector: delta\n      path: {json.dumps(path)}"
        return
    yield "      connector: files"
    yield f"      path: {json.dumps(path)}"
    yield f"      format: {dataset.format}"
    if dataset.options:
        yield f"      options: {json.dumps(dataset.options)}"


def _folder_columns(dataset: FolderDataset) -> list[str]:
    parts = dataset.files[0].parent.parts
    return [part.partition("=")[0] for part in parts if re.fullmatch(r"[^=]+=.*", part)]


def _shown(name: str) -> str:
    return name if re.fullmatch(r"\w+", name) else f"`{name}`"


def _one_line(text: str) -> str:
    """Names of columns are of the files: nothing of them ends a comment."""
    return re.sub(r"[\x00-\x1f\x7f\x85\u2028\u2029]", " ", text)[:2_000]

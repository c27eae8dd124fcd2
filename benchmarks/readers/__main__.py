"""Read with every engine, compare, and write the page.

    python -m benchmarks.readers [--engines DuckDB,polars] [--keep]

`--keep` writes `benchmarks/results/readers.json` and the results of `docs/readers.md`, if all gaps
are as named. Results of engines that were not read stay. The exit code is 1 if a gap is unnamed or closed.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.ipc

from benchmarks import pages
from benchmarks.readers import results_page
from benchmarks.readers.comparison import WHOLE, Differences, differences
from benchmarks.readers.engines import ENGINES, Engine, Read, read
from benchmarks.readers.examples import PAGE, codes, replaced
from benchmarks.readers.gaps import NO_EXAMPLE, Cell, Matrix, expected_gaps, problems
from benchmarks.readers.service import Place, State, running

# Iceberg has no narrower integers
OF_ICEBERG = {pa.int8(): pa.int32(), pa.int16(): pa.int32()}


def main() -> int:
    arguments = _arguments()
    names = arguments.engines.split(",") if arguments.engines else [e.name for e in ENGINES]
    matrix, versions = dict[Cell, Differences](), dict[str, str]()
    with (
        tempfile.TemporaryDirectory(dir=arguments.folder) as folder,
        running(Path(folder) / "service") as place,
    ):
        for engine in ENGINES:
            if engine.name in names:
                cells, version = read_all(engine, place, Path(folder))
                matrix |= cells
                versions[engine.name] = version
    gaps = expected_gaps()
    result = results_page.merged(matrix, versions, _machine(), pages.known_in(results_page.RESULTS))
    lines = results_page.lines(result, gaps)
    sys.stdout.write("\n".join(lines) + "\n")
    wrong = problems(matrix, gaps)
    sys.stdout.write("".join(f"WRONG: {problem}\n" for problem in wrong))
    if arguments.keep and not wrong:
        pages.store(results_page.RESULTS, [result])
        pages.write(results_page.MARK, lines, PAGE)
    return 1 if wrong else 0


def read_all(engine: Engine, place: Place, folder: Path) -> tuple[Matrix, str]:
    """Cells of an engine, and its version."""
    code_of = codes(engine.name, place, PAGE.read_text())
    sent = {f"{way}, {state}": code for (way, state), code in code_of.items() if code}
    scratch = folder / engine.name
    scratch.mkdir()
    with engine.server(place, scratch) as addresses:
        sent = {label: replaced(code, addresses) for label, code in sent.items()}
        answer = read(engine, sent, _schema(place, folder), scratch)
    cells = {
        Cell(engine.name, way, state): _compared(answer, way, state, place, engine.has_types)
        for way, state in code_of
    }
    return cells, ", ".join(answer.versions.values())


def _compared(answer: Read, way: str, state: State, place: Place, has_types: bool) -> Differences:
    label = f"{way}, {state}"
    if label not in answer.files:
        return {WHOLE: [NO_EXAMPLE]}
    error = answer.errors[label]
    if error is not None:
        return {WHOLE: [error]}
    table = pa.ipc.open_file(str(answer.files[label])).read_all()
    expected = place.expected(state)
    if way == "Iceberg" and has_types:
        expected = _as_iceberg(expected)
    return differences(expected, table)


def _as_iceberg(table: pa.Table) -> pa.Table:
    fields = [field.with_type(OF_ICEBERG.get(field.type, field.type)) for field in table.schema]
    return table.cast(pa.schema(fields))


def _schema(place: Place, folder: Path) -> Path:
    path = folder / "schema"
    with pa.OSFile(str(path), "wb") as sink:
        pyarrow.ipc.new_file(sink, place.expected("newest").schema).close()
    return path


def _machine() -> dict[str, object]:
    return {"at": time.strftime("%Y-%m-%d", time.gmtime()), **pages.machine()}


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.readers")
    parser.add_argument("--engines", default="", help="names with commas between them")
    parser.add_argument("--folder", help="where the home is made for the time of the run")
    parser.add_argument("--keep", action="store_true", help="write the results")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())

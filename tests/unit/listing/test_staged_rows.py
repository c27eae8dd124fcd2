"""Sheets of Excel, lines of fixed width and rows of XML as the CSV that Spark reads; no Spark is
here. Each file has bounds, and an error names it."""

from __future__ import annotations

import csv
import hashlib
import io
import threading
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from dataplane.connectors.files import row_process_runs, stages, staging, xml_rows
from dataplane.connectors.files.bad_rows import BadRows
from dataplane.connectors.files.excel_rows import cell_text
from dataplane.connectors.files.xml_rows import write_xml_rows
from dataplane.fragments.attempt import Cancelled
from dataplane.task_failures import TaskFailure
from tests.excel_files import cell, sheet, sheet_of, workbook

SPARK = SimpleNamespace(sparkContext=SimpleNamespace(master="local[2]"))


@dataclass(frozen=True)
class Attempt:
    claim: dict[str, Any]
    scratch: Path
    threads: ThreadPoolExecutor
    cancelled: threading.Event
    spark: Any


@dataclass(frozen=True)
class Read:
    """A result of a task: its state, its error, and for each file the columns that are known and
    the rows of its CSV."""

    state: str
    error: Mapping[str, Any]
    columns: Any
    rows: list[list[str]]


class Files:
    def __init__(self, folder: Path, threads: ThreadPoolExecutor) -> None:
        self.folder, self.threads = folder, threads
        self.cancelled = threading.Event()
        self.rounds: list[int] = []  # tasks in each

    def source(self, name: str, content: bytes | str) -> dict[str, Any]:
        data = content if isinstance(content, bytes) else content.encode()
        path = self.folder / name
        path.write_bytes(data)
        version = f"sha256:{hashlib.sha256(data).hexdigest()}"
        own = {"name": name, "uri": path.as_uri(), "size": len(data), "modified_ms": 0}
        return {**own, "version": version, "columns": None}

    def read(
        self, format: str, options: Mapping[str, Any], sources: Sequence[Mapping[str, Any]]
    ) -> list[Read]:
        """What becomes of each file, in a task of its own."""
        job = {"format": format, "options": options}
        tasks: list[Any] = [
            {"task": f"{i:064x}", "epoch": 1, "partition": str(i), "objects": [source]}
            for i, source in enumerate(sources)
        ]
        attempt = Attempt(
            {"job": job, "tasks": tasks}, self.folder, self.threads, self.cancelled, SPARK
        )
        seen: dict[str, tuple[list[Any], list[list[str]]]] = {}

        def work(own: Any) -> list[Any]:
            self.rounds.append(len(own.claim["tasks"]))
            for task in own.claim["tasks"]:
                (source,) = task["objects"]
                text = Path(source["uri"].removeprefix("file://")).read_text()
                seen[task["task"]] = source["columns"], list(csv.reader(io.StringIO(text)))
            return [{"task": t["task"], "state": "done"} for t in own.claim["tasks"]]

        results: Any = staging.staged(cast("Any", attempt), work)
        assert not list(self.folder.glob("staged-*"))
        return [
            Read(r["state"], r.get("error", {}), *seen.get(t["task"], ([], [])))
            for t, r in zip(tasks, results, strict=True)
        ]

    def rows(self, format: str, options: Mapping[str, Any], content: bytes | str) -> Read:
        (read,) = self.read(format, options, [self.source(f"a.{format}", content)])
        assert read.state == "done", read.error
        return read


@pytest.fixture
def files(tmp_path: Path) -> Iterator[Files]:
    with ThreadPoolExecutor(2) as threads:
        yield Files(tmp_path, threads)


def book(*rows: Sequence[Any]) -> bytes:
    return workbook({"Data": sheet(rows)})


# --- sheets ---------------------------------------------------------------------------------------


def test_a_range_counts_rows_and_columns_of_the_sheet(files: Files) -> None:
    file = book([], [], [None, 1, 2], [None, 3], [], [None, 9])
    assert files.rows("xlsx", {"range": "B3:C4"}, file).rows == [["1", "2"], ["3", ""]]
    assert files.rows("xlsx", {"range": "A4:D6"}, file).rows == [
        ["", "3", "", ""],
        ["", "9", "", ""],
    ]


def test_a_sheet_without_a_header_begins_in_column_a(files: Files) -> None:
    read = files.rows("xlsx", {}, book([None, None, "x"], [None, 5]))
    assert read.rows == [["", "", "x"], ["", "5", ""]]
    assert read.columns == ["_c0", "_c1", "_c2"]  # a dataset may have more


def test_a_sheet_is_chosen_by_name(files: Files) -> None:
    file = workbook({"Notes": sheet([["hello"]]), "Data": sheet([["id"], [1]])})
    read = files.rows("xlsx", {"sheet": "Data", "header": True}, file)
    assert (read.rows, read.columns) == ([["id"], ["1"]], None)
    (gone,) = files.read("xlsx", {"sheet": "Gone"}, [files.source("a.xlsx", file)])
    assert "a.xlsx: it has no sheet 'Gone', but 'Notes', 'Data'" in gone.error["message"]


def claiming(file: bytes, size: int) -> bytes:
    """A workbook with a part more, which is so large by the directory of the archive."""
    target = io.BytesIO(file)
    with zipfile.ZipFile(target, "a") as archive:
        archive.writestr("xl/media/a", "a")
        archive.getinfo("xl/media/a").file_size = size
    return target.getvalue()


ENTITIES = '<!DOCTYPE x [<!ENTITY a "1234567890"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">]>'
FAR = cell("A1", "id") + '</row><row r="1048576">' + cell("XFD1048576", 1)
SHARED = ("<row>" + '<c t="s"><v>0</v></c>' * 16_000 + "</row>") * 10
LAUGHS = sheet_of('<row r="1"><c r="A1" t="str"><v>&b;</v></c></row>', ENTITIES)
BAD_BOOKS = [
    (b"", "MALFORMED_FILE", "it is no .xlsx file"),
    (b"PK\x03\x04 no archive", "MALFORMED_FILE", "File is not a zip file"),
    (workbook({"Data": sheet_of(f'<row r="1">{FAR}</row>')}), "file-too-large", "it needs more"),
    (workbook({"Data": LAUGHS}), "MALFORMED_FILE", ""),
    (claiming(book(["a"]), 2 << 30), "MALFORMED_FILE", "it takes more than 1024 MiB unpacked"),
    (book(["amount", "amount"]), "schema-clash", "two columns are named 'amount': rename one"),
]


def test_sheets_that_cannot_be_read_are_refused(files: Files) -> None:
    sources = [files.source(f"{i}.xlsx", content) for i, (content, *_) in enumerate(BAD_BOOKS)]
    reads = files.read("xlsx", {"header": True}, sources)
    for number, (_, condition, message) in enumerate(BAD_BOOKS):
        error = reads[number].error
        assert (error["kind"], error["condition"]) == ("user", condition), error
        assert error["message"].startswith(f"{files.folder}/{number}.xlsx: {message}")


@pytest.mark.soak
def test_a_text_that_many_cells_share_takes_no_more_than_the_bound(files: Files) -> None:
    file = workbook({"Data": sheet_of(SHARED)}, "x" * 32_000)
    (read,) = files.read("xlsx", {}, [files.source("a.xlsx", file)])
    assert read.error["condition"] == "file-too-large"


@pytest.mark.parametrize(
    ("length", "text"),
    [
        (timedelta(minutes=-90), "-1:30:00"),
        (timedelta(seconds=5.5), "0:00:05.5"),
        (timedelta(days=2, seconds=1, microseconds=123456), "48:00:01.123456"),
    ],
)
def test_durations_have_a_sign_and_all_digits(length: timedelta, text: str) -> None:
    assert cell_text(length) == text


# --- elements -------------------------------------------------------------------------------------

OUTSIDE = "<!DOCTYPE r [<!ENTITY a SYSTEM 'file:///etc/passwd'>]><x><r><v>&a;</v></r></x>"
LONG = "n" * 1001
BAD_XML = [
    ("", "line 1: no element found"),
    (f"{ENTITIES.replace('x', 'r', 1)}<x><r><v>&b;</v></r></x>", "line 1: a document type"),
    (OUTSIDE, "line 1: a document type"),
    ("<x>\n<r><v>1</v><v>2</v></r></x>", "line 2: v stands more than once"),
    ("<x>\n<r>text<v>1</v></r></x>", "line 2: text stands beside elements"),
    ("<x>\n\n<r><v>1</r></x>", "line 3: mismatched tag"),
    (f"<x><r>{'<d>' * 200}{'</d>' * 200}</r></x>", "line 1: elements lie more than 100 deep"),
    (f"<x>\n<{LONG}/></x>", "line 2: a name has more than 1000"),
    (f"<x><r {LONG}='1'/></x>", "line 1: a name has more than 1000"),
    (f"<x><r><{LONG[:600]}><{LONG[:600]}/></{LONG[:600]}></r></x>", "line 1: the name of a column"),
    (
        f"<x><r>{''.join(f'<v{i}{LONG[:900]}/>' for i in range(1200))}</r></x>",
        "line 1: its rows have more than 10000 columns, or names of more than 1000000",
    ),
    (f"<x><!--{' ' * (10 << 20)}--></x>", "line 1: a tag or a comment takes more than 8 MiB"),
    ("<x>\n<r id='1'/><r><_id>2</_id></r></x>", "line 2: two attributes or elements give"),
    ("<x><r><p.c>1</p.c></r><r><p><c>2</c></p></r></x>", "line 1: two attributes or elements"),
]


def test_xml_that_is_no_rows_of_values_is_refused(tmp_path: Path) -> None:
    for text, message in BAD_XML:
        path = tmp_path / "a.xml"
        path.write_text(text)
        with pytest.raises(BadRows) as fault:
            write_xml_rows(path, tmp_path / "a.csv", "r")
        assert f"line {fault.value.line}: {fault.value}".startswith(message)
        assert len(str(fault.value)) < 2000
    assert fault.value.condition == "schema-clash"


def test_a_long_value_is_no_long_tag(tmp_path: Path) -> None:
    value = "x" * (xml_rows.MOST_TOKEN + xml_rows.CHUNK)
    (tmp_path / "a.xml").write_text(f"<x><r><v>{value}</v></r></x>")
    assert write_xml_rows(tmp_path / "a.xml", tmp_path / "a.csv", "r") == 1
    assert (tmp_path / "a.csv").read_text() == f'"v"\n"{value}"\n'


def test_elements_within_elements_are_columns(files: Files) -> None:
    text = "<x><r k='a'><p><n>1</n><u>kg</u></p><e/></r><r>own</r><o><r k='&lt;'/></o></x>"
    assert files.rows("xml", {"rowTag": "r"}, text).rows == [
        ["_k", "p.n", "p.u", "e", "_VALUE"],
        ["a", "1", "kg", "", ""],
        ["", "", "", "", "own"],
        ["<", "", "", "", ""],
    ]


def test_a_fault_of_xml_names_file_and_line(files: Files) -> None:
    (read,) = files.read("xml", {"rowTag": "r"}, [files.source("a.xml", "<x>\n<r></x>")])
    assert read.error["message"] == f"{files.folder}/a.xml: line 2: mismatched tag"
    assert (read.error["condition"], read.error["line"]) == ("MALFORMED_FILE", 2)


# --- all of them ----------------------------------------------------------------------------------

TAG = {"rowTag": "r"}
GOOD = [
    ("xlsx", {}, book([1])),
    ("fixed", {"columns": "a:1-1"}, b"1\n"),
    ("xml", TAG, b"<x><r>1</r></x>"),
]


@pytest.mark.parametrize(("format", "options", "content"), GOOD)
def test_a_file_that_changed_after_its_listing_gives_nothing(
    files: Files, format: str, options: dict[str, Any], content: bytes
) -> None:
    source = files.source("a", content)
    (files.folder / "a").write_bytes(content.replace(b"1", b"2") + b"\n")
    assert [r.state for r in files.read(format, options, [source])] == ["void"]


def xml_of(value: str) -> str:
    return f"<x><r><v>{value}</v></r></x>"


def test_files_that_find_no_space_follow_in_another_round(
    files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stages, "SPACE_BYTES", 3000)
    values = [letter * 900 for letter in "abcd"]
    sources = [files.source(f"{v[0]}.xml", xml_of(v)) for v in values]
    reads = files.read("xml", TAG, [*sources, files.source("z.xml", xml_of("z" * 9000))])
    assert [r.rows[1:] for r in reads[:4]] == [[[v]] for v in values]
    assert len(files.rounds) > 1
    assert reads[4].error["condition"] == "file-too-large"
    assert f"{files.folder}/z.xml" in reads[4].error["message"]


def test_a_file_is_copied_up_to_a_bound(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(staging, "SOURCE_BYTES", 100)
    sources = [files.source("a.xml", xml_of("a")), files.source("b.xml", xml_of("b" * 100))]
    good, long = files.read("xml", TAG, sources)
    assert good.state == "done"
    assert "b.xml: not readable: it takes more than" in long.error["message"]


# --- the process ----------------------------------------------------------------------------------


def run(files: Files, code: str) -> tuple[int, str, str]:
    (files.folder / "own_module.py").write_text(code)
    return row_process_runs.run([], files.folder, files.cancelled, "own_module")


def test_the_process_knows_nothing_of_the_drivers_environment(
    files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    _, output, _ = run(files, "import os; print(*os.environ)")
    assert set(output.split()) <= {"LANG", "LC_CTYPE", "PATH", "PYTHONPATH"}


def test_the_process_ends_with_its_attempt(files: Files) -> None:
    files.cancelled.set()
    with pytest.raises(Cancelled):
        run(files, "import time; time.sleep(1000)")


def test_the_process_has_bounds_of_time_and_memory(files: Files) -> None:
    code = "import dataplane.storage.file_process as p; p.WALL_S = 1; p.bound_process(1 << 30); "
    assert run(files, code + "import time; time.sleep(1000)")[0] == -14
    exit_code, _, error = run(files, code + "bytes(3 << 30)")
    assert exit_code == 1
    assert "MemoryError" in error
    failure = row_process_runs._fault(-14, "", "xml")
    assert isinstance(failure, TaskFailure)
    assert failure.condition == "file-too-large"

"""A new project, the schema, the snippets, and problems with ranges: what editors and their users
start from."""

from __future__ import annotations

import io
import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from controlplane.__main__ import Bootstrap
from controlplane.cli.main import run
from controlplane.core.blueprint import json_schema
from controlplane.services.editor import project_files
from controlplane.services.editor.text_ranges import end_of, word_at

pytestmark = pytest.mark.unit


def headgate(*arguments: object) -> int:
    return run([*map(str, arguments)], Bootstrap())


def asked(capfd: pytest.CaptureFixture[str], *arguments: object, code: int = 0) -> Any:
    capfd.readouterr()
    assert headgate(*arguments, "-o", "json") == code
    return json.loads(capfd.readouterr().out)


# --- init ------------------------------------------------------------------------------------------


def test_a_new_project_is_valid_and_its_blueprint_names_its_schema(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "My Shop-2"
    assert headgate("init", folder) == 0
    told = capfd.readouterr()
    blueprint = folder / "blueprints" / "my_shop_2.yaml"
    assert told.err == f"next: headgate run {blueprint}\n"
    assert set(map(Path, told.out.splitlines())) == {
        path for path in folder.rglob("*") if path.is_file()
    }
    assert asked(capfd, "validate", blueprint) == {"valid": True, "errors": [], "notices": []}
    header = blueprint.read_text().splitlines()[0]
    schema = header.removeprefix("# yaml-language-server: $schema=")
    assert json.loads((blueprint.parent / schema).read_text()) == json_schema()
    assert len((folder / "README.md").read_text().splitlines()) <= 10
    workflow = yaml.safe_load((folder / ".github/workflows/headgate.yaml").read_text())
    assert workflow["env"]["BLUEPRINTS"] == "blueprints/*.yaml"
    assert ".headgate/" in (folder / ".gitignore").read_text()


def test_nothing_is_overwritten(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "README.md").write_text("mine")
    (tmp_path / ".gitignore").symlink_to("nowhere")
    assert headgate("init", tmp_path) == 1
    assert "README.md, .gitignore already" in capfd.readouterr().err
    assert sorted(path.name for path in tmp_path.iterdir()) == [".gitignore", "README.md"]
    assert (tmp_path / "README.md").read_text() == "mine"
    (tmp_path / "file").write_text("")
    assert headgate("init", tmp_path / "file" / "inner") == 1
    assert "file" in capfd.readouterr().err


def test_a_folder_with_other_files_takes_a_project(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    assert headgate("init", tmp_path, "--name", "sales") == 0
    assert (tmp_path / "blueprints" / "sales.yaml").is_file()
    assert headgate("init", tmp_path / "other", "--name", "No Name") == 64


@pytest.mark.parametrize(
    ("folder", "name"),
    [
        ("shop", "shop"),
        ("My Shop--2", "my_shop_2"),
        ("2024", "shop"),
        ("self", "shop"),
        ("ü", "shop"),
    ],
)
def test_the_dataflow_has_the_folder_s_name_if_it_can(folder: str, name: str) -> None:
    assert project_files.name_for(Path("/x") / folder) == name


# --- schema and snippets ---------------------------------------------------------------------------


def test_the_schema_is_printed_or_written(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert headgate("schema") == 0
    assert json.loads(capfd.readouterr().out) == json_schema()
    for _ in range(2):
        assert headgate("schema", "--vscode", tmp_path) == 0
    assert json.loads((tmp_path / project_files.SCHEMA).read_text()) == json_schema()
    assert json.loads((tmp_path / project_files.SNIPPETS).read_text()) == SNIPPETS


SNIPPETS: dict[str, Any] = json.loads(project_files.snippets_text())
BASE = """\
dataflow: shop
components:
  orders:
    read: {connector: files, path: /data/*.csv, format: csv, schema: "shop INT, amount INT"}
"""


def expanded(body: list[str], choice: int) -> str:
    """A snippet as an editor first shows it, with one of its choices."""
    text = "\n".join(body)
    first = dict(re.findall(r"\$\{(\d+):([^}]*)\}", text))
    text = re.sub(r"\$\{\d+\|([^|]*)\|\}", lambda found: pick(found[1].split(","), choice), text)
    text = re.sub(r"\$\{(\d+)(?::[^}]*)?\}", lambda found: first[found[1]], text)
    return re.sub(r"\$0", "", text.replace("\\$", "\0")).replace("\0", "$")


def pick(choices: list[str], number: int) -> str:
    return choices[number % len(choices)]


def within(name: str, text: str) -> str:
    """Where a snippet is to be put."""
    if name == "hg-dataflow":
        return text
    depth = 4 if name == "hg-expect" else 2
    return BASE + "".join(f"{' ' * depth}{line}\n" for line in text.split("\n"))


@pytest.mark.parametrize("name", SNIPPETS)
def test_a_snippet_expands_into_a_valid_blueprint(
    name: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    snippet = SNIPPETS[name]
    assert set(snippet) == {"scope", "prefix", "description", "body"}
    most = max(
        [1, *(len(c.split(",")) for c in re.findall(r"\|([^|]*)\|", "\n".join(snippet["body"])))]
    )
    for choice in range(most):
        path = tmp_path / f"{choice}.yaml"
        path.write_text(within(snippet["prefix"], expanded(snippet["body"], choice)))
        assert asked(capfd, "validate", path)["valid"], path.read_text()


def test_snippets_have_names_of_their_own() -> None:
    assert len({one["prefix"] for one in SNIPPETS.values()}) == len(SNIPPETS)


# --- problems with ranges --------------------------------------------------------------------------


def given(monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))


WRONG = b"""\
dataflow: shop
components:
  orders: {read: {connector: files, path: d/*.csv, format: csv, schema: "id INTT"}}
  dear:
    transform:
      sql: |
        SELECT *
        FROM ordes
"""


def test_problems_of_standard_input_have_ranges(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    given(monkeypatch, WRONG)
    found = asked(capfd, "validate", "--stdin", "blueprints/shop.yaml", code=1)
    assert not found["valid"]
    places = [
        (e["file"], e["code"], e["line"], e["column"], e["end_line"], e["end_column"])
        for e in found["errors"]
    ]
    assert ("blueprints/shop.yaml", "missing-input", 8, 14, 8, 19) in places
    assert ("blueprints/shop.yaml", "invalid-schema", 3, 77, 3, 81) in places
    given(monkeypatch, BASE.encode())
    assert asked(capfd, "validate", "--stdin")["valid"]
    given(monkeypatch, b"dataflow: \xff")
    assert asked(capfd, "validate", "--stdin", code=1)["errors"][0]["code"] == "invalid-encoding"
    given(monkeypatch, WRONG)
    assert headgate("validate", "--stdin") == 1
    assert "stdin.yaml:8:14: missing-input" in capfd.readouterr().out


def test_arguments_that_do_not_go_together(tmp_path: Path) -> None:
    assert headgate("validate") == 64
    assert headgate("validate", "--stdin", "a.yaml", "b.yaml") == 64
    assert headgate("validate", "--stdin", "--expand") == 64


@pytest.mark.parametrize(
    ("text", "place", "end"),
    [
        ("a: bcd", (1, 4), (1, 7)),
        ('a: "b c" d', (1, 4), (1, 9)),
        ("x\r\nFROM shop.orders o", (2, 6), (2, 17)),
        ("a: `b c`", (1, 4), (1, 9)),
        ("p > :minimum", (1, 5), (1, 13)),
        ("a: [", (1, 4), (1, 5)),
        ("a", (1, 5), (1, 5)),
        ("a", (9, 1), (9, 1)),
        ("", (0, 0), (0, 0)),
        ('a: "b', (1, 4), (1, 5)),
    ],
)
def test_the_end_of_a_problem(text: str, place: tuple[int, int], end: tuple[int, int]) -> None:
    assert end_of(text, *place) == end


def test_the_word_at_a_place() -> None:
    assert word_at("FROM shop.orders o", 1, 6) == ("shop.orders", 6)
    assert word_at("FROM shop.orders o", 1, 17) == ("shop.orders", 6)
    assert word_at("a  b", 1, 3) == ("", 3)
    assert word_at("a", 7, 1) == ("", 1)

"""The documentation names every field of the blueprint language, and its links lead somewhere."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from controlplane.core.blueprint import json_schema
from controlplane.operations.desired import blueprints
from dataplane.contract.schemas import Json

ROOT = Path(__file__).parents[2]
DECISIONS = ROOT / "docs" / "decisions"
PAGES = (*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *DECISIONS.glob("*.md"))
FENCED = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
CODE = re.compile(r"`([^`\n]+)`")
LINK = re.compile(r"\]\((?!https?:)([^)#\s]*)(?:#([^)\s]+))?\)")
# With a dot, or of a class
NAME = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+|[A-Z][a-z]+(?:[A-Z][a-z]+)+")
FILE_ENDS = (".db", ".json", ".py", ".md", ".yaml")
PLANES = ("controlplane", "dataplane", "headgate")
HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)


def test_every_field_is_on_the_page_of_the_language() -> None:
    page = FENCED.sub("", (ROOT / "docs" / "blueprint.md").read_text(encoding="utf-8"))
    documented = {word for code in CODE.findall(page) for word in re.findall(r"\w+", code)}
    assert sorted(set(_fields(json_schema())) - documented) == []


def _fields(schema: Json) -> Iterator[str]:
    """Names of keys anywhere in a JSON Schema. Names that users choose are not among them."""
    if isinstance(schema, list):
        for part in schema:
            yield from _fields(part)
    if isinstance(schema, dict):
        yield from schema.get("properties", ())
        for part in schema.values():
            yield from _fields(part)


def test_links_lead_to_pages_and_headings() -> None:
    assert [f"{page.name}: {link}" for page in PAGES for link in _dead_links(page)] == []


def test_the_index_of_decisions_names_each_once() -> None:
    index = (DECISIONS / "README.md").read_text(encoding="utf-8")
    files = [path.name for path in DECISIONS.glob("[0-9]*.md")]
    assert sorted(path for path, _ in LINK.findall(index)) == sorted(files)


def _dead_links(page: Path) -> Iterator[str]:
    text = FENCED.sub("", page.read_text(encoding="utf-8"))
    for path, heading in LINK.findall(text):
        target = page.parent / path if path else page
        if not target.exists():
            yield path
        elif heading and heading not in _anchors(target):
            yield f"{path}#{heading}"


def _anchors(page: Path) -> set[str]:
    """As GitHub makes them of headings; of headings that come again they are numbered."""
    headings = HEADING.findall(FENCED.sub("", page.read_text(encoding="utf-8")))
    plain = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in headings)
    seen: Counter[str] = Counter()
    anchors = set()
    for anchor in (heading.strip().replace(" ", "-") for heading in plain):
        anchors.add(f"{anchor}-{seen[anchor]}" if seen[anchor] else anchor)
        seen[anchor] += 1
    return anchors


def test_the_blueprint_of_the_tutorial_has_no_problems() -> None:
    page = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")
    first, *more = re.findall(r"^```yaml\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    text = first + "".join(more)
    assert (
        blueprints.validate([blueprints.SentBlueprint("/data/shop.yaml", text, {})]).problems == ()
    )


def test_the_blueprints_of_files_have_no_problems() -> None:
    page = (ROOT / "docs" / "files.md").read_text(encoding="utf-8")
    texts = re.findall(r"^```yaml\n(dataflow: .*?)^```", page, re.DOTALL | re.MULTILINE)
    sent = [
        blueprints.SentBlueprint(f"/data/{number}.yaml", text, {})
        for number, text in enumerate(texts)
    ]
    assert len(sent) == 3
    assert blueprints.validate(sent).problems == ()


def test_the_architecture_names_what_is_there() -> None:
    """Modules, functions and methods of its walks, by the ends of their names: `claims.claim`,
    `Wake.notify`."""
    page = FENCED.sub("", (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8"))
    names = {code.removesuffix("()") for code in CODE.findall(page)}
    names = {name for name in names if NAME.fullmatch(name) and not name.endswith(FILE_ENDS)}
    known = {end for name in _names_of_code() for end in _ends(name)}
    assert len(names) > 40
    assert sorted(names - known) == []


def _names_of_code() -> Iterator[str]:
    """Each with its module; of classes with their methods and fields."""
    for path in (path for plane in PLANES for path in (ROOT / plane).rglob("*.py")):
        module = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        yield module
        code = ast.parse(path.read_text(encoding="utf-8"))
        for name in _defined_in(code):
            yield f"{module}.{name}"
        if path.stem == "__init__":
            for node in (node for node in code.body if isinstance(node, ast.ImportFrom)):
                yield from (f"{module}.{alias.name}" for alias in node.names)


def _defined_in(scope: ast.Module | ast.ClassDef) -> Iterator[str]:
    for node in scope.body:
        match node:
            case ast.FunctionDef(name=name):
                yield name
            case ast.AnnAssign(target=ast.Name(id=name)) | ast.Assign(targets=[ast.Name(id=name)]):
                yield name
            case ast.ClassDef(name=name):
                yield name
                yield from (f"{name}.{inner}" for inner in _defined_in(node))


def _ends(name: str) -> Iterator[str]:
    parts = name.split(".")
    return (".".join(parts[at:]) for at in range(len(parts)))

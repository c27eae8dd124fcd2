"""The documentation names every field of the blueprint language, and its links lead somewhere."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from controlplane.core.blueprint import json_schema
from dataplane.contract.schemas import Json

ROOT = Path(__file__).parents[2]
PAGES = (*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"))
FENCED = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
CODE = re.compile(r"`([^`\n]+)`")
LINK = re.compile(r"\]\((?!https?:)([^)#\s]*)(?:#([^)\s]+))?\)")
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

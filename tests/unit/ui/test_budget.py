"""What pages may weigh and cost: bytes on the way, elements, and statements of the database, which
no node adds to."""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterator

import pytest

from controlplane.core.model.answers.health import BlockedDataset, OpenProblem
from controlplane.operations.inspect import open_problems
from controlplane.ui import draw, static_files
from tests.unit.ui.test_pages import PATHS
from tests.unit.ui.world import Pages, pages

STATIC_BYTES = 45_000  # gzipped, all files together but the font and those of the editor
FONT, FONT_BYTES = "inter.woff2", 60_000
# Of the pages of plans and queries alone
EDITOR = (
    "codemirror.js",
    "codemirror.LICENSE",
    "editor.js",
    "completion.js",
    "workbench.js",
    "workbench.css",
)
RAW_BYTES = 400_000  # all but the bundle of CodeMirror and licences, as they are
EDITOR_BYTES = 165_000
HTML_BYTES = 30_000  # gzipped
ELEMENTS = 1_200
STATEMENTS, OF_A_BRANCH = 60, 90  # a branch is looked up over main
OF_A_COLUMN = 75  # its lineage, up and down
MORE = 12  # components
AREAS = ("raw", "stg", "int", "mart")


@pytest.fixture(scope="module")
def world() -> Iterator[Pages]:
    with pages() as found:
        yield found


def cost(world: Pages, path: str) -> tuple[int, int, int]:
    """Statements, bytes and elements of a page."""
    with world.http() as http:
        http.get(path)  # what is kept between requests is there
        before = world.world.store.statements
        page = http.get(path)
        assert page.status_code == 200
        return (
            world.world.store.statements - before,
            len(gzip.compress(page.content)),
            len(re.findall("<[a-z]", page.text)),
        )


def test_static_files_are_small() -> None:
    every = static_files.all_files()
    of_pages = [file for name, file in every.items() if name not in (FONT, *EDITOR)]
    assert sum(len(file.zipped) for file in of_pages) <= STATIC_BYTES
    assert len(every[FONT].content) <= FONT_BYTES
    assert sum(len(every[name].zipped) for name in EDITOR) <= EDITOR_BYTES
    own = [name for name in every if name != "codemirror.js" and not name.endswith("LICENSE")]
    assert sum(len(every[name].content) for name in own) <= RAW_BYTES


def test_sizes_in_styles_are_of_one_scale() -> None:
    """Sizes of text are tokens; gaps, paddings and margins of 4 pixels or more are multiples."""
    style = static_files.all_files()["headgate.css"].content.decode()
    assert not re.findall(r"font(?:-size)?: (?:\d+ )?\d+px", style)
    spaces = re.findall(r"(?:gap|padding|margin)(?:-\w+)*: ([^;}]+)", style)
    pixels = [int(number) for space in spaces for number in re.findall(r"(\d+)px", space)]
    assert len(pixels) > 200
    assert {size for size in pixels if size > 3 and size % 4} == set()


def test_a_font_is_kept_for_a_year_as_the_style_names_it(world: Pages) -> None:
    style = static_files.all_files()["headgate.css"].content.decode()
    (address,) = re.findall(r'url\("([^"]+)"\)', style)
    assert address == static_files.url(FONT)
    with world.http(signed_in=False) as http:
        answer = http.get(address)
    assert answer.headers["content-type"] == "font/woff2"
    assert "immutable" in answer.headers["cache-control"]


def test_static_files_are_kept_for_a_year_and_zipped_where_that_is_understood(world: Pages) -> None:
    file = static_files.all_files()["pages.js"]
    with world.http(signed_in=False) as http:
        for encoding, size in (("gzip", len(file.zipped)), ("identity", len(file.content))):
            with http.stream(
                "GET", static_files.url("pages.js"), headers={"Accept-Encoding": encoding}
            ) as answer:
                assert len(b"".join(answer.iter_raw())) == size
                assert "immutable" in answer.headers["cache-control"]
        assert http.get(static_files.url("pages.js")).content == file.content
        assert "immutable" not in http.get("/static/pages.js?v=old").headers["cache-control"]
        assert http.get("/static/../app.py").status_code == 404


@pytest.mark.parametrize("path", PATHS)
def test_a_page_is_cheap(world: Pages, path: str) -> None:
    statements, size, elements = cost(world, path)
    most = {"branch": OF_A_BRANCH, "column": OF_A_COLUMN}
    assert statements <= max([STATEMENTS, *(most[name] for name in most if f"{name}=" in path)])
    assert size <= HTML_BYTES
    assert elements <= ELEMENTS


def test_many_failures_that_block_much_are_a_small_page(
    world: Pages, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed, _ = open_problems.of_branch(world.world.ctx, "main")
    blocks = [
        BlockedDataset(name=f"shop.a_long_name_{i * 7919 % 10_007}", freshness=None)
        for i in range(300)
    ]
    storm = [
        OpenProblem({**failed, "name": f"shop.failed_{i}", "blocks": blocks[i:]})
        for i in range(200)
    ]
    monkeypatch.setattr(open_problems, "of_branch", lambda *_: storm)
    _, size, elements = cost(world, "/")
    assert size <= HTML_BYTES
    assert elements <= 2 * ELEMENTS


def components(number: int, source: str = "orders") -> str:
    """Of a dataflow: chains of 20, each of which begins at the source."""
    before = [source if i % 20 == 0 else f"{AREAS[(i - 1) % 4]}_{i - 1:04}" for i in range(number)]
    return "".join(
        f'  {AREAS[i % 4]}_{i:04}: {{transform: {{sql: "SELECT k, v FROM {name}"}}}}\n'
        for i, name in enumerate(before)
    )


def test_more_components_cost_no_more_statements(world: Pages) -> None:
    # Adopted from the other dataflow: adoptions are placed among commits
    dear = "  dear: {transform: {sql: SELECT k FROM orders}}\n"
    world.world.apply(dear, flow="many")
    world.world.settle()
    few = {path: cost(world, path)[0] for path in PATHS}
    more = "".join(
        f'  m{i}: {{transform: {{sql: "SELECT k, v + {i} AS v FROM orders"}}}}\n'
        for i in range(MORE)
    )
    world.world.apply(dear + more, flow="many")
    world.world.settle()
    for path in PATHS:
        statements, size, _ = cost(world, path)
        assert statements <= few[path] + 2, path
        assert size <= HTML_BYTES, path


# The last one: planning from nothing names keys in another form where there are so many components
def test_300_boxes_are_a_small_page(world: Pages) -> None:
    world.world.apply(components(draw.BOXES + 100), flow="wide")
    for query in ("", "?show=all", "?show=all&group=prefix", "?find=raw_00", "?rows=100"):
        statements, size, elements = cost(world, f"/flows/wide{query}")
        assert statements <= STATEMENTS, query
        assert size <= HTML_BYTES, query
        assert elements <= 4 * ELEMENTS, query
    with world.http() as http:
        page = http.get("/flows/wide?show=all").text
        assert page.count('<a class="node ') == draw.BOXES
        assert "300 of 401 boxes are drawn" in page, "orders among them"
        rows = [http.get(f"/flows/wide?rows={n}").text.count('name="on"') for n in (0, 100, 400)]
        assert rows == [100, 100, 1]
        grouped = http.get("/flows/wide?show=all&group=prefix").text
    assert re.findall(r'aria-label="(\w+ \d+ datasets)', grouped) == [
        f"{area} 100 datasets" for area in AREAS
    ]

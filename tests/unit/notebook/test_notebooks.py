"""A notebook in a kernel of its own, from its file to its outputs: cells of Python and of SQL, and
completion."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
from nbclient.util import run_sync
from nbformat.v4 import new_code_cell, new_notebook

from tests.unit.notebook.conftest import HOSTILE
from tests.unit.records.world import Served

pytestmark = [pytest.mark.unit, pytest.mark.slow]  # each test starts a kernel
ROOT = Path(__file__).parents[3]
ENDS_S = 120
WRONG = (
    ("%%headgate FROM x\nSELECT 1", "as NAME"),
    (
        "values = [1]\nget_ipython().run_cell_magic('headgate', '', 'SELECT $values')",
        r"\$values is a list",
    ),
    ("hg['nothing']", "not-found"),
    ("%%headgate --chart pie\nSELECT 1", "invalid choice: 'pie'"),
)


@pytest.fixture
def kernel(place: Served, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a kernel that is started is told: where the service is, as the command line is told
    it."""
    monkeypatch.setenv("HEADGATE_URL", place.url)
    monkeypatch.setenv("HEADGATE_TOKEN", place.token)
    monkeypatch.setenv("PYTHONPATH", f"{ROOT}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    monkeypatch.setenv("IPYTHONDIR", str(folder / "ipython"))


def notebook(folder: Path, *cells: str) -> NotebookClient:
    """Written to a file, and read from it, as any notebook is."""
    path = folder / "notebook.ipynb"
    nbformat.write(new_notebook(cells=[new_code_cell(cell) for cell in cells]), path)
    return NotebookClient(nbformat.read(path, as_version=4), timeout=ENDS_S, kernel_name="python3")


def shown(client: NotebookClient) -> list[dict[str, str]]:
    """What each cell shows, by type; empty where it shows nothing."""
    cells = [cell["outputs"] for cell in client.nb.cells]
    return [next((dict(out["data"]) for out in outputs if "data" in out), {}) for outputs in cells]


def test_a_notebook_from_its_file_to_its_outputs(kernel: None, folder: Path) -> None:
    client = notebook(
        folder,
        "import headgate\nhg = headgate.connect()\n%load_ext headgate\nhg",
        'hg["shop"]["orders"]',
        'least = 1\nhg["shop"]["orders"].where("k > 2").to_pandas()[["k", "name"]]',
        "%%headgate as late\nSELECT k, name FROM shop.orders@1 WHERE k > $least",
        "late.to_polars().rows()",
        "%headgate",
        "%headgate SELECT 1 AS one",
        "%%headgate as drawn --chart bar\nSELECT name, k FROM shop.orders",
        "drawn.limit(1).to_polars().height",
    )
    client.execute()
    status, dataset, frame, cell, rows, line, one, chart, height = shown(client)
    assert "shop.orders" in status["text/html"]
    assert "&lt;script&gt;" in dataset["text/html"]
    assert "<script" not in dataset["text/html"]
    assert "ü" in frame["text/html"]
    assert "1 row of query SELECT k, name" in cell["text/html"]
    assert rows["text/plain"] == repr([(2, HOSTILE)])
    assert "shop.orders" in line["text/plain"]
    assert '<td class="n">1</td>' in one["text/html"]
    assert 'class="chart k-bar"' in chart["text/html"]
    assert height["text/plain"] == "1", "the name is that of the query"


def _completed(client: NotebookClient, code: str) -> tuple[list[str], str]:
    """What the kernel offers at the end of a cell, and what it would replace."""
    kernel: Any = client.kc

    async def ask() -> Any:
        return await kernel.complete(code, len(code), reply=True, timeout=ENDS_S)

    content = run_sync(ask)()["content"]
    return content["matches"], code[content["cursor_start"] : content["cursor_end"]]


def test_names_are_completed_and_what_is_wrong_is_told_in_words(kernel: None, folder: Path) -> None:
    client = notebook(folder, "%load_ext headgate", "%headgate", *(cell for cell, _ in WRONG))
    with client.setup_kernel():
        for index, cell in enumerate(client.nb.cells[:2]):
            client.execute_cell(cell, index)
        assert _completed(client, "%%headgate\nSELECT *\nFROM shop.o") == (
            ["shop.orders"],
            "shop.o",
        )
        assert _completed(client, "%%headgate\nFROM shop.orders WHERE pr") == (["price"], "pr")
        assert "shop.orders" in _completed(client, "hg['shop.o")[0][0]
        assert "shop.orders" not in _completed(client, "sho")[0]
        for (_, words), (index, cell) in zip(WRONG, enumerate(client.nb.cells[2:], 2), strict=True):
            with pytest.raises(CellExecutionError, match=words):
                client.execute_cell(cell, index)
            (error,) = cell["outputs"]
            assert len(error["traceback"]) <= 2, "no frames of packages"

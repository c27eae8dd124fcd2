"""From an empty folder to a notebook: `init` makes a project, in which a notebook runs, asks,
edits, and reads."""

from __future__ import annotations

import os
from datetime import date

import nbformat
import pytest
from nbclient import NotebookClient
from nbformat.v4 import new_code_cell, new_notebook

from tests.e2e.workspace import HANGS_S, ROOT, Workspace
from tests.jars import DELTA_CONF, delta_classpath
from tests.slices import in_turn

# Takes turns with the clients of S3, of which one hands rows to a user's Spark as well. Each call
# of the package is asked of unit/notebook, `init` of unit/editor/test_project.
pytestmark = [pytest.mark.slow, *in_turn(1, 4)]

CELLS = (
    "import headgate\nhg = headgate.connect()\nran = hg.run('blueprints/shop.yaml')\nran",
    "ran['state'], [row['name'] for row in ran['datasets']]",
    "by_shop = hg['shop']['by_shop']\nby_shop",
    "by_shop.to_polars().sort('shop').rows()",
    """\
open('data/orders/2026-11-02.csv', 'w').write('shop,product,day,amount\\n2,fig,2026-11-02,5\\n')
text = open('blueprints/shop.yaml').read()
open('blueprints/shop.yaml', 'w').write(text.replace('sum(amount) AS amount', 'sum(amount) + 100 AS amount'))
plan = hg.plan('blueprints/shop.yaml')
plan""",
    "plan.apply()\nhg.run('blueprints/shop.yaml')['tasks']['executed']",
    "%load_ext headgate",
    "%%headgate as both\nSELECT day, amount FROM shop.by_shop UNION ALL SELECT day, amount FROM shop.by_shop@1",
    "sorted(both.to_pandas()['amount'])",
    "by_shop.why()",
    """\
from pyspark.sql import SparkSession
builder = SparkSession.builder.master('local[1]').config('spark.ui.enabled', 'false')
for name, value in CONF.items():
    builder = builder.config(name, value)
spark = builder.getOrCreate()
frame = by_shop.where('amount > 105').columns('amount').to_spark(spark)
rows = sorted(row.amount for row in frame.collect())
earlier = by_shop.at('@1')
try:
    earlier.to_spark(spark)
except headgate.Refused as refused:
    rows += [refused.code]
rows += [both.to_spark(spark).count()]
spark.stop()
rows""",
)


def test_a_notebook_in_a_new_project(workspace: Workspace) -> None:
    folder = workspace.folder / "shop"
    workspace.call("init", "shop")
    conf = {**DELTA_CONF, "spark.driver.extraClassPath": delta_classpath()}
    cells = [new_code_cell(cell) for cell in (f"CONF = {conf!r}", *CELLS)]
    path = folder / "look.ipynb"
    nbformat.write(new_notebook(cells=cells), path)
    nb = nbformat.read(path, as_version=4)
    here = {"metadata": {"path": str(folder)}}
    client = NotebookClient(nb, timeout=int(HANGS_S), kernel_name="python3", resources=here)
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "E2E_MARK": workspace.mark,
        "HEADGATE_HOME": ".headgate",
    }
    client.execute(env=environment)
    html, text = shown(client.nb.cells)
    assert text[2] == "('up_to_date', ['shop.orders', 'shop.by_shop'])"
    assert "<b>shop.by_shop</b> <span" in html[3]
    assert " up to date</span>, generation 1" in html[3]
    assert text[4] == repr(text_rows("1, 2026-11-01, 14", "2, 2026-11-01, 7"))
    assert "<td>shop.by_shop</td>" in html[5]
    assert int(text[6]) >= 2
    assert text[9] == "[7, 14, 105, 107, 114]"
    # One or two after the edit and the file
    assert text[10].startswith("shop.by_shop is up_to_date, generation ")
    assert "cause: " in text[10]
    assert text[11] == "[107, 114, 'not-published', 5]"
    assert (folder / ".headgate" / "metadata.db").is_file()
    workspace.assert_alone()


def text_rows(*rows: str) -> list[tuple[object, ...]]:
    parts = [row.split(", ") for row in rows]
    return [(int(shop), date.fromisoformat(day), int(amount)) for shop, day, amount in parts]


def shown(cells: list[nbformat.NotebookNode]) -> tuple[list[str], list[str]]:
    """What each cell shows, as HTML and as text."""
    data: list[dict[str, str]] = [
        next((out["data"] for out in cell["outputs"] if "data" in out), {}) for cell in cells
    ]
    return [d.get("text/html", "") for d in data], [d.get("text/plain", "") for d in data]

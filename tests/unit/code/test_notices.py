"""What users are told of code whose results may change by themselves, without having said so."""

from __future__ import annotations

import pytest

from controlplane.operations.desired.blueprints import SentBlueprint, validate

pytestmark = pytest.mark.unit

FLOW = """\
dataflow: shop
components:
  raw: {{read: {{connector: files, path: /data/*.csv, format: csv, schema: "id INT"}}}}
  made:
    transform:
      {code}
      inputs: {{raw: each}}
{more}"""
INLINE = """python: |
        import random, time
        def transform(raw):
            at = time.time()
            return raw.limit(3)"""
CLEAN = """python: |
        def transform(raw):
            return raw"""


def told(code: str, more: str = "", **files: str) -> list[tuple[str, int, str]]:
    text = FLOW.format(code=code, more=more)
    return [
        (n.file, n.line, n.message)
        for n in validate([SentBlueprint("/flow.yaml", text, files)]).notices
    ]


def test_each_construct_with_its_place() -> None:
    frozen = "results are frozen as they first come out, and never shared"
    clock = f"the clock of Python code is the machine's, not the plan's `as_of`; {frozen}"
    assert told(INLINE) == [
        ("/flow.yaml", 7, f"import of random: {frozen}"),
        ("/flow.yaml", 9, f"time.time: {clock}"),
        ("/flow.yaml", 10, f".limit() without orderBy: {frozen}"),
    ]


def test_the_hint_names_the_cure() -> None:
    code = """python: |
        import numpy as np, random, requests
        def transform(raw):
            np.random.rand()
            return raw.toPandas().sample(3)"""
    notices = validate([SentBlueprint("/flow.yaml", FLOW.format(code=code, more=""), {})]).notices
    cures = [n.hint.partition("; or declare `volatile:")[0] for n in notices]
    seed = "use numpy.random.default_rng(SEED), with a number, or a value of `params:`, as the seed"
    package = "add the package of requests to `requirements:`, with its version: requests==1.2.3"
    assert cures[:3] == [seed, package, seed]
    assert cures[3].startswith("in pandas pass random_state=NUMBER")


def test_in_files_and_modules() -> None:
    code = "file: made.py\n      modules: [lib.py]"
    files = {
        "made.py": "import lib\ndef transform(raw):\n    return raw\n",
        "lib.py": "import time\nt = time.time()\n",
    }
    assert [(file, line) for file, line, _ in told(code, **files)] == [("lib.py", 2)]
    files["made.py"] = (
        "from datetime import date\ndef transform(raw):\n    return raw.where(f'{date.today()} > d')\n"
    )
    assert [line for _, line, _ in told(code, **files)] == [2, 3]


@pytest.mark.parametrize("period", ["true", "daily", "hourly"])
def test_what_is_declared_is_known(period: str) -> None:
    assert told(INLINE, f"    volatile: {period}\n") == []


def test_nothing_to_tell() -> None:
    assert told(CLEAN) == []
    assert told("python: (") == []  # a problem, told as such

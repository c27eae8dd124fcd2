"""Packages that a transform requires, on the driver and on Python workers, and in no other
transform."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.spark.conftest import Lake, failed
from tests.spark.test_python import bundle, on_numbers
from tests.wheels import only_from, wheel

USING = """
import hgsparkpkg
from pyspark.sql import functions as F
def transform(part):
    there = F.udf(lambda n: f"{hgsparkpkg.VERSION} {hgsparkpkg.add(n)}", "string")
    return part.select(F.lit(hgsparkpkg.VERSION).alias("driver"), there("n").alias("worker"))
"""
LOOKING = """
from pyspark.sql import functions as F
def look(n):
    try:
        import hgsparkpkg
        return hgsparkpkg.__file__
    except ImportError:
        return "none"
def transform(part):
    return part.select(F.lit(look(0)).alias("driver"), F.udf(look, "string")("n").alias("worker"))
"""


@pytest.fixture
def wheels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before there is an executor: it keeps the environment as it finds it."""
    for version in ("1.0", "2.0"):
        text = f"VERSION = '{version}'\ndef add(n):\n    return n + {version[0]}\n"
        wheel(tmp_path / "wheels", "hgsparkpkg", version, text)
    only_from(tmp_path / "wheels", tmp_path / "home", monkeypatch)


@pytest.mark.usefixtures("wheels")
def test_drivers_and_workers_see_what_is_required(lake: Lake) -> None:
    for version, added in (("1.0", 11), ("2.0", 12), ("1.0", 11)):
        (result,) = on_numbers(
            lake, {**bundle(USING), "requirements": [f"hgsparkpkg=={version}"]}, [10]
        )
        assert lake.rows(result) == [{"driver": version, "worker": f"{version} {added}"}]
        (result,) = on_numbers(lake, bundle(LOOKING), [10])
        assert lake.rows(result) == [{"driver": "none", "worker": "none"}]
    (result,) = on_numbers(lake, {**bundle(USING), "requirements": ["hgsparkpkg==3.0"]}, [10])
    error = failed(result)
    assert (error["kind"], error["condition"]) == ("user", "REQUIREMENTS_NOT_INSTALLED")

"""The list of mutants does not rot: each text stands exactly once in its file, and each test that
kills it is there."""

from __future__ import annotations

import tomllib
from collections import Counter
from pathlib import Path

import pytest

pytestmark = pytest.mark.unit
ROOT = Path(__file__).parents[3]
MUTANTS = tomllib.loads((ROOT / "tests" / "mutants.toml").read_text(encoding="utf-8"))["mutant"]


def test_there_are_enough_and_each_has_its_name() -> None:
    names = Counter(mutant["fault"] for mutant in MUTANTS)
    assert len(names) >= 60
    assert names.most_common(1)[0][1] == 1


def test_each_text_stands_exactly_once_in_its_file() -> None:
    """One that was moved or reworded: copy the new text to `before`."""
    counts = {
        m["fault"]: (ROOT / m["file"]).read_text(encoding="utf-8").count(m["before"])
        for m in MUTANTS
    }
    assert {fault: count for fault, count in counts.items() if count != 1} == {}


def test_the_tests_of_each_are_there() -> None:
    paths = {path for mutant in MUTANTS for path in mutant["tests"].split()}
    assert sorted(path for path in paths if not (ROOT / path).exists()) == []

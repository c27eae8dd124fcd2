"""How results of tests are shown: lines with rows to paste, and JUnit's XML."""

from __future__ import annotations

from xml.etree import ElementTree as ET

import pytest

from controlplane.cli.example_views import flow, junit, results
from controlplane.cli.output import Lines
from controlplane.core.model.answers.examples import ExamplesAnswer

pytestmark = pytest.mark.unit

ANSWER: ExamplesAnswer = {
    "state": "failed",
    "passed": 1,
    "failed": 1,
    "wall_s": 2.5,
    "tests": [
        {
            "dataset": "shop.dear",
            "name": "fine",
            "file": "shop.yaml",
            "line": 9,
            "column": 9,
            "state": "passed",
            "seconds": 0.5,
            "message": "",
            "error": None,
            "difference": None,
            "notes": [],
        },
        {
            "dataset": "shop.dear",
            "name": "gross & net",
            "file": "shop.yaml",
            "line": 12,
            "column": 9,
            "state": "failed",
            "seconds": 0.25,
            "message": "rows differ: 1 missing, 1 changed",
            "error": None,
            "difference": {
                "columns": ["id", "day", "gross"],
                "missing": [[2, "2013-07-04", None]],
                "unexpected": [],
                "changed": [
                    {"expected": [1, "x y", 1.5], "found": [1, "x y", 2.5], "columns": ["gross"]}
                ],
                "moved": None,
            },
            "notes": ["orders: day could not be typed"],
        },
    ],
}


def test_lines() -> None:
    [part] = results(ANSWER)
    assert isinstance(part, Lines)
    assert part.lines == (
        "pass  shop.dear: fine  (0.50 s)",
        "FAIL  shop.dear: gross & net  (0.25 s)  shop.yaml:12:9",
        "      rows differ: 1 missing, 1 changed",
        '      - {id: 2, day: "2013-07-04", gross: null}',
        "      - {id: 1, day: x y, *gross: 1.5*}",
        "      + {id: 1, day: x y, *gross: 2.5*}",
        "      orders: day could not be typed",
        "1 passed, 1 failed in 2.5 s",
    )


def test_junit() -> None:
    suite = ET.fromstring(junit(ANSWER))
    assert (suite.get("tests"), suite.get("failures")) == ("2", "1")
    fine, failed = suite.findall("testcase")
    assert (fine.get("classname"), fine.get("name"), fine.find("failure")) == (
        "shop.dear",
        "fine",
        None,
    )
    failure = failed.find("failure")
    assert failure is not None
    assert failure.get("message") == "rows differ: 1 missing, 1 changed"
    assert "*gross: 2.5*" in (failure.text or "")


def test_values_are_written_as_yaml_reads_them() -> None:
    values = ["a b", "", "true", "7", "a: b", 'say "x"', None, True, 1.5, [1, "x"], {"a b": "1"}]
    texts = [flow(value) for value in values]
    assert texts[:6] == ["a b", '""', '"true"', '"7"', '"a: b"', '"say \\"x\\""']
    assert texts[6:] == ["null", "true", "1.5", "[1, x]", '{a b: "1"}']

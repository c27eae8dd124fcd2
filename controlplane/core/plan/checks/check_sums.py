"""What checks found, summed up and judged: answers are sums over partitions, results are what users
see of them."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Literal

from controlplane.core.compile.compiled_checks import EXAMPLES, CompiledCheck
from controlplane.core.model.check_results import CheckFinding, CheckResult, Example
from dataplane.contract.results import EXPECTATION, TaskError

EXPECTATION_FAILED = "expectation-failed"  # no task has failed, so a retry runs nothing
PARTITIONS = 2  # that an error names
NOTHING: CheckFinding = {"rows": 0, "failing": 0, "examples": []}


def plus(answer: CheckFinding, parts: Iterable[tuple[str, CheckFinding]]) -> CheckFinding:
    """With the findings in more partitions."""
    total: CheckFinding = {**answer, "examples": list(answer["examples"])}
    for key, part in parts:
        total["rows"] += part["rows"]
        total["failing"] += part["failing"]
        total["examples"] += [_example_in(key, row) for row in part["examples"]]
    total["examples"] = total["examples"][:EXAMPLES]
    return total


def _example_in(partition: str, row: str | Example) -> Example:
    return {"partition": partition, "row": _example(row)["row"]}


def without(
    answer: CheckFinding, parts: Iterable[tuple[str, CheckFinding]], changed: Container[str]
) -> CheckFinding:
    """Without the findings in some partitions, and without examples of those that changed."""
    removed = plus(NOTHING, parts)
    examples = [e for e in answer["examples"] if _example(e)["partition"] not in changed]
    rows, failing = answer["rows"] - removed["rows"], answer["failing"] - removed["failing"]
    return {"rows": rows, "failing": failing, "examples": examples}


def of_bounds(bounds: tuple[int | None, int | None], rows: int) -> CheckFinding:
    least, most = bounds
    is_met = (least is None or rows >= least) and (most is None or rows <= most)
    return {"rows": rows, "failing": 0 if is_met else 1, "examples": []}


def result(check: CompiledCheck, answer: CheckFinding) -> CheckResult:
    """As users see it."""
    # As it is written: 0.29 of 100 rows are 29
    allowed = Fraction(str(check.of.threshold)) * answer["rows"]
    state: Literal["ok", "warning", "failed"] = "ok"
    if answer["failing"] > allowed:
        state = "failed" if check.of.on_fail == "fail" else "warning"
    return {
        "name": check.name,
        "expects": check.of.in_words,
        "on_fail": check.of.on_fail,
        "threshold": check.of.threshold,
        "rows": answer["rows"],
        "failing": answer["failing"] if check.of.rows is None else None,
        "state": state,
        "examples": [_example(e) for e in answer["examples"]],
    }


def dropped(check: CompiledCheck, counts: Sequence[Mapping[str, int]] | None) -> CheckResult:
    """Rows left out of new partitions; None where that is no longer known."""
    count = None if counts is None else sum(c.get(check.id.hex(), 0) for c in counts)
    return {
        "name": check.name,
        "expects": check.of.in_words,
        "on_fail": check.of.on_fail,
        "threshold": 0.0,
        "rows": None,
        "failing": count,
        "state": "ok",
        "examples": [],
    }


def _example(row: str | Example) -> Example:
    return {"partition": None, "row": row} if isinstance(row, str) else row


def failure(check: CompiledCheck, answer: CheckFinding) -> TaskError:
    """The error of a dataset whose new rows fail an expectation."""
    return {
        "kind": "user",
        "condition": EXPECTATION_FAILED,
        "sqlstate": None,
        "message": _message(check, answer),
        "file": EXPECTATION + check.name,
        "line": 1 if check.of.check else None,
        "column": 1 if check.of.check else None,
        "detail": "",
    }


def _message(check: CompiledCheck, answer: CheckFinding) -> str:
    label = "" if check.name == check.of.in_words else f"{check.name}: "
    if check.of.rows is not None:
        return f"{label}there are {answer['rows']} rows, and {check.of.in_words} is expected"
    share = f", more than the share of {check.of.threshold:g}" if check.of.threshold else ""
    shown = _places(answer["examples"])
    what = "repeat others under" if check.of.unique else "fail"
    return f"{label}{answer['failing']} of {answer['rows']} rows {what} {check.of.in_words}{share}{shown}"


def _places(examples: Sequence[str | Example]) -> str:
    """The first partitions. Rows are not in a message: it goes into events, alerts and webhooks,
    which tokens without the permission `data` see."""
    partitions = dict.fromkeys(_example(e)["partition"] for e in examples)
    named = [name for name in partitions if name]
    return "; for example in " + " and ".join(named[:PARTITIONS]) if named else ""


def reason(broken: int, generation: int) -> str:
    failing = "an expectation fails" if broken == 1 else f"{broken} expectations fail"
    return f"{failing}; " + (
        f"readers keep generation {generation}" if generation else "there is no generation yet"
    )

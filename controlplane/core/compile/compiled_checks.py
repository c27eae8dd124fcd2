"""Expectations on a dataset's rows, compiled to values that can be evaluated and remembered:
identities, results.

`drop` decides which rows there are, so it is part of the dataset's logic. All other expectations
check existing rows: their findings are remembered by the identity of the question, which excludes
the name of the expectation and the consequence of a failure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from controlplane.core import sql
from controlplane.core.blueprint import Component, Expectation
from controlplane.core.compile.ids import SPARK_LINE
from controlplane.core.errors import Problem
from dataplane.contract.encoding import digest
from dataplane.contract.jobs import DropRule, DropRules, JobSparkSettings
from dataplane.contract.results import EXPECTATION, REASON
from dataplane.contract.schemas import Schema, field_of, select_columns, struct_of

EXAMPLES: Final = 20  # failing rows that are reported


@dataclass(frozen=True, slots=True)
class CompiledCheck:
    """One expectation that was compiled. `id` identifies the question about the rows."""

    of: Expectation
    id: bytes
    predicate: sql.Predicate | None

    @property
    def name(self) -> str:
        return self.of.name

    @property
    def is_drop(self) -> bool:
        """Tasks look for rows that fail, and take them out, whether or not they are kept elsewhere;
        or fail at a late one."""
        return self.of.on_fail in ("drop", "quarantine") or self.of.late is not None

    @property
    def quarantines(self) -> bool:
        return self.of.on_fail == "quarantine"

    def read_schema(self, schema: Schema) -> Schema:
        """The part of the dataset's schema that it looks at."""
        names = [f["name"] for f in schema["fields"]]
        if self.predicate is None:
            unique = {n.casefold() for n in self.of.unique}
            return select_columns(schema, [n for n in names if n.casefold() in unique])
        named = self.predicate.named_columns(names)
        return schema if named is None else select_columns(schema, named)


def compiled(
    component: Component, spark: JobSparkSettings, semantics: int, problems: list[Problem]
) -> tuple[CompiledCheck, ...]:
    """The component's expectations; conditions that cannot be read are problems at their own
    places."""
    return tuple(
        c for e in component.expect if (c := _compiled(e, spark, semantics, problems)) is not None
    )


def _compiled(
    expectation: Expectation, spark: JobSparkSettings, semantics: int, problems: list[Problem]
) -> CompiledCheck | None:
    common = {"spark": spark, "line": SPARK_LINE, "semantics": semantics}
    if (rule := expectation.late) is not None:
        # In microseconds: numbers with a point have no canonical text
        late = {"column": rule.column, "delay_us": rule.delay_us, "ahead_us": rule.max_ahead_us}
        fails = expectation.on_fail == "fail"
        return CompiledCheck(expectation, digest("late/1", **late, fails=fails, **common), None)
    if expectation.record_columns:
        return CompiledCheck(expectation, digest("records/1", **common), None)
    if not expectation.check:
        columns = sorted(expectation.unique)
        return CompiledCheck(expectation, digest("unique/1", columns=columns, **common), None)
    try:
        condition = sql.predicate(expectation.check)
    except sql.SqlProblem as e:
        at = expectation.text.at(e.line, e.column)
        problems.append(at.problem(e.code, e.message, e.hint))
        return None
    return CompiledCheck(
        expectation, digest("condition/1", condition=condition.digest, **common), condition
    )


def filtered_logic(logic: bytes, checks: Iterable[CompiledCheck]) -> bytes:
    """Logic that leaves out the rows that fail some of these; `logic` itself where nothing is
    dropped."""
    taken_out = [c for c in checks if c.is_drop]
    drops = sorted({c.id for c in taken_out})
    if not any(c.quarantines for c in taken_out):
        return digest("filtered/1", logic=logic, drop=drops) if drops else logic
    # The first that a row fails is its reason
    rules = [(c.id, c.name if c.quarantines else None) for c in taken_out]
    return digest("quarantining/1", logic=logic, rules=rules)


def not_quarantined(checks: Iterable[CompiledCheck]) -> Iterator[Problem]:
    """Problems of a transform in which one task gives partitions by key: quarantined rows would
    need a second partition for each."""
    message = "rows cannot be quarantined where one task gives partitions by key"
    hint = "drop them, read an input `by` the key, or quarantine them in what reads this dataset"
    for check in checks:
        if check.quarantines:
            at = check.of.place
            yield at.problem("not-supported", message, hint)


def quarantine_logic(logic: bytes) -> bytes:
    """The logic of the dataset of rows that are quarantined from another one."""
    return digest("quarantine/1", logic=logic)


def with_reason(schema: Schema, checks: Iterable[CompiledCheck] = ()) -> Schema:
    """The schema of rows that are quarantined from a dataset with this schema and these checks."""
    names = [REASON, *(name for check in checks for name in check.of.record_columns)]
    return struct_of([*schema["fields"], *(field_of(name, "string") for name in names)])


def drop_job(checks: Iterable[CompiledCheck], spark: JobSparkSettings) -> DropRules | None:
    """What a driver has to know in order to leave rows out; None if there is nothing to do."""
    drops = [_rule(c) for c in checks if c.is_drop]
    return {"drop": drops, "spark": spark} if drops else None


def _rule(check: CompiledCheck) -> DropRule:
    rule: DropRule = {"id": check.id.hex(), "name": check.name, "check": check.of.check}
    if check.quarantines:
        rule["quarantine"] = True
    if check.of.record_columns:
        rule["record_columns"] = list(check.of.record_columns)
    if (late := check.of.late) is not None:
        rule["late"] = {
            "column": late.column,
            "max_ahead_s": late.max_ahead_s,
            "delay_us": late.delay_us,
            "fails": check.of.on_fail == "fail",
        }
    return rule


def absent_columns(checks: Iterable[CompiledCheck], schema: Schema, own: Schema) -> Schema:
    """The columns of a dataset that its rows are dropped by, and that one of its partitions does
    not have."""
    have = {f["name"] for f in own["fields"]}
    named = {f["name"] for c in checks if c.is_drop for f in c.read_schema(schema)["fields"]}
    return select_columns(schema, named - have)


def place_of(
    component: Component, file: str | None, line: int | None, column: int | None
) -> tuple[str, int, int] | None:
    """(file, line, column) in the blueprint of an error in an expectation; None if it is about
    none."""
    name = file.removeprefix(EXPECTATION) if file and file.startswith(EXPECTATION) else None
    expectation = next((e for e in component.expect if e.name == name), None)
    if expectation is None:
        return None
    place = (
        expectation.text.at(line, column or 1)
        if expectation.check and line is not None
        else expectation.place
    )
    return place.file, place.line, place.column


# --- findings ---------------------------------------------------------------------------------------


def dropped_key(task: bytes) -> bytes:
    """Under which it is remembered how many rows a task left out, by the identity of the check."""
    return digest("dropped/1", task=task)


def part_key(check: CompiledCheck, slot: bytes) -> bytes:
    """Key of the task that evaluates a check over these rows, and of its answer."""
    return digest("check/1", check=check.id, slot=slot)


def whole_key(check: CompiledCheck, root: bytes, schema: bytes) -> bytes:
    """Under which the sum of the answers of all partitions below a root is remembered."""
    return digest("checked/1", check=check.id, root=root, schema=schema)


def record_key(branch: str, dataset: str, generation: int) -> bytes:
    """Under which the results of one generation are kept."""
    return digest("results/1", branch=branch, dataset=dataset, generation=generation)

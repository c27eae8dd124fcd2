"""Second step of compiling: how each input of a transform is read (each, by, all, previous), and if
these agree."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from controlplane.core import sql
from controlplane.core.blueprint import Component, PythonTransform, SqlTransform
from controlplane.core.blueprint.problems import did_you_mean
from controlplane.core.blueprint.text_places import Position
from controlplane.core.compile import key_types, mode_advice, name_lookup, ordered_fold, reach_rules
from controlplane.core.compile.key_types import KeyTypes
from controlplane.core.compile.nodes import Node, Slot
from controlplane.core.compile.ordered_fold import Fold
from controlplane.core.errors import Problem
from controlplane.core.python import code
from dataplane.contract.jobs import Mode
from dataplane.contract.key_values import utc_granule_s
from dataplane.contract.schemas import Schema

_BOUND_OF_SESSIONS = (
    "group by a column as well, and partition by it: partition_by: [{user: bucket 16}]; or say "
    "that they are read whole: inputs: {NAME: all}"
)


@dataclass(frozen=True, slots=True)
class ComponentInputs:
    """What a component reads: datasets by the names that it has for them, and the nodes compiled so
    far. A name that could not be resolved has no dataset."""

    datasets: Mapping[str, str]
    nodes: Mapping[str, Node]
    case_sensitive: bool
    timezone: str


@dataclass(frozen=True, slots=True)
class Modes:
    """How a transform reads its inputs, and, where it reads its own partition before, as what.
    `by_key`: how it reads them if they have the same types for the key, where that is not known
    yet."""

    slots: tuple[Slot, ...]
    fold: Fold | None
    problems: tuple[Problem, ...]
    by_key: tuple[Slot, ...] = ()


def of_sql(
    component: Component, body: SqlTransform, query: sql.AnalysedQuery, inputs: ComponentInputs
) -> Modes:
    slots, by_key = _sql_slots(component, body, query, inputs)
    rules = reach_rules.ReachRules(body, slots, inputs.timezone, query, inputs.case_sensitive)
    slots = rules.slots_with_reach()
    read = {slot.name for slot in slots}
    unread = [_unread(hint.place, hint.name, read) for hint in body.inputs if hint.name not in read]
    folded, wrong = _folded(component, body, slots, {".".join(r.parts) for r in query.references})
    problems = (
        *unread,
        *_unset(component, body, query),
        *_unbounded(body, query, (*slots, *by_key)),
        *wrong,
        *_conflicts(component, body, slots),
        *rules.problems(),
    )
    return Modes(slots, folded, problems, by_key)


def of_python(
    component: Component, body: PythonTransform, bundle: code.CodeBundle, inputs: ComponentInputs
) -> Modes:
    """Each input is read as it is declared; `all` where that is left out."""
    slots = tuple(
        _python_slot(component, body, hint.name, hint.mode or "all", inputs) for hint in body.inputs
    )
    rules = reach_rules.ReachRules(body, slots, inputs.timezone)
    slots = rules.slots_with_reach()
    folded, wrong = _folded(component, body, slots, None)
    problems = (
        *_unnamed(component, body, bundle),
        *wrong,
        *_conflicts(component, body, slots),
        *rules.problems(),
    )
    return Modes(slots, folded, problems)


# --- slots --------------------------------------------------------------------------------------


def _sql_slots(
    component: Component, body: SqlTransform, query: sql.AnalysedQuery, inputs: ComponentInputs
) -> tuple[tuple[Slot, ...], tuple[Slot, ...]]:
    """The inputs; and, where it depends on types that are not known yet, the inputs if these are
    the same."""
    declared = {hint.name: hint.mode for hint in body.inputs if hint.mode}
    parts = [
        sql.OutputKeyPart(
            key.column,
            key.granule or f"bucket {key.buckets}" * bool(key.buckets),
            utc_granule_s(key.granule, inputs.timezone),
        )
        for key in body.partition_by
    ]
    verdicts = dict(query.verdicts(parts, case_sensitive=inputs.case_sensitive))
    verdicts.pop(ordered_fold.name_of(component), None)
    renamed = name_lookup.renamed(component)
    datasets = {name: inputs.datasets.get(renamed.get(name, name), "") for name in verdicts}
    slots = []
    for name, mode, reason in _chosen(
        {name: verdict.planned for name, verdict in verdicts.items()}, declared
    ):
        cure = mode_advice.of_sql(body, name, verdicts[name], declared) if mode == "all" else ""
        if mode == "all" and verdicts[name].mode == "by" and not declared:
            reason = _reason_of_expression(verdicts[name], body, inputs.timezone)
        at = verdicts[name].at
        columns = _columns(body, mode)
        slots.append(Slot(name, datasets[name], mode, reason, columns, cure=cure, at=at))
    keyed = {} if declared else _proven_keys(verdicts)
    if not keyed:
        return tuple(slots), ()
    by_key = []
    for slot in slots:
        reason = verdicts[slot.name].reason
        merge = query.verdicts()[slot.name].merge
        # Parts of one of several inputs would have to be merged with rows of the others.
        if merge is not None and len(keyed) == 1:
            reason = f"{reason}; {merge.words}"
        by_key.append(_by(slot, reason, keyed))
    windows = any(key.window for name in keyed for key in verdicts[name].keys)
    return _by_types(body, slots, by_key, inputs, windows=windows)


def _reason_of_expression(verdict: sql.Verdict, body: SqlTransform, timezone: str) -> str:
    """Why an input is read whole that could be read by expressions of its columns."""
    for key, part in zip(verdict.keys, body.partition_by, strict=True):
        if not key.window or key.column:
            continue
        if not part.granule:
            return f"`all`: {part.column} is the start of a window, and has no granule of time"
        if not key.part.granule_s:
            return f"`all`: windows begin by UTC, and each {part.granule} by {timezone}"
        return f"`all`: a window of {key.window} may begin in another {part.granule} than its rows"
    return "`all`: a part of the key is an expression of columns, in one of its inputs"


def _by(slot: Slot, reason: str, keyed: Mapping[str, tuple[str, ...]]) -> Slot:
    """The input as it is read where the key is proven."""
    if slot.name not in keyed:
        return slot
    return Slot(slot.name, slot.dataset, "by", reason, keyed[slot.name], is_proven=True)


def _by_types(
    body: SqlTransform,
    slots: Sequence[Slot],
    by_key: Sequence[Slot],
    inputs: ComponentInputs,
    *,
    windows: bool,
) -> tuple[tuple[Slot, ...], tuple[Slot, ...]]:
    """One input is read by its own columns of any type. With several inputs, a key
    might have another text in each; and a window is over times, or over texts of them."""
    sides = [slot for slot in by_key if slot.mode == "by"]
    if len(sides) == 1 and not windows:
        return tuple(by_key), ()
    schemas = {
        side.name: schema
        for side in sides
        if (schema := _declared(side.dataset, inputs)) is not None
    }
    types = KeyTypes.of(body.partition_by, sides, schemas, case_sensitive=inputs.case_sensitive)
    if types.difference is not None:
        part, words = types.difference
        return _explained(slots, sides, f"`all`: {words}", key_types.cure_of_types(part)), ()
    if types.are_known:
        unfit = key_types.unfit(
            body.partition_by, sides, schemas, case_sensitive=inputs.case_sensitive
        )
        if unfit is not None:
            return _explained(slots, sides, f"`all`: {unfit}", ""), ()
        return tuple(by_key), ()
    return tuple(_awaiting(slot, sides, types) for slot in slots), tuple(by_key)


def _explained(
    slots: Sequence[Slot], sides: Sequence[Slot], reason: str, cure: str
) -> tuple[Slot, ...]:
    of_key = {side.name for side in sides}
    return tuple(
        replace(slot, reason=reason, cure=cure) if slot.name in of_key else slot for slot in slots
    )


def _awaiting(slot: Slot, sides: Sequence[Slot], types: KeyTypes) -> Slot:
    if slot.name not in {side.name for side in sides}:
        return slot
    unknown = [name for name, kinds in types.by_input.items() if None in kinds]
    key = ", ".join(types.key)
    reason = f"by {key} or whole: decided once the types of {' and '.join(unknown)} are known"
    return replace(slot, reason=reason, cure="", awaits_types=True)


def _python_slot(
    component: Component, body: PythonTransform, name: str, mode: Mode, inputs: ComponentInputs
) -> Slot:
    dataset = inputs.datasets.get(name_lookup.renamed(component).get(name, name), "")
    cure = mode_advice.of_python() if mode == "all" else ""
    return Slot(name, dataset, mode, f"declared {mode}", _columns(body, mode), cure=cure)


def _proven_keys(verdicts: Mapping[str, sql.Verdict]) -> dict[str, tuple[str, ...]]:
    """The columns of the key in inputs that are proven to be read by it; none where one of them has
    no such columns."""
    by = {
        name: tuple(k.column for k in verdict.keys)
        for name, verdict in verdicts.items()
        if verdict.mode == "by"
    }
    return by if all(all(columns) for columns in by.values()) else {}


def _declared(dataset: str, inputs: ComponentInputs) -> Schema | None:
    """The columns that a read component declares; None where they are not known before its data
    is."""
    node = inputs.nodes.get(dataset)
    return node.declared if node is not None else None


def _chosen(
    inferred: Mapping[str, sql.Mode], hints: Mapping[str, Mode]
) -> Iterator[tuple[str, Mode, str]]:
    """Name, mode and reason. Inputs are proven `each` together: where one is declared otherwise,
    none of them is."""
    other = [n for n, m in inferred.items() if m.mode == "each" and hints.get(n, "each") != "each"]
    for name, inferred_mode in inferred.items():
        hint = hints.get(name)
        if hint is not None and hint != inferred_mode.mode:
            yield name, hint, f"declared {hint}; inferred {inferred_mode.reason}"
        elif hint is None and inferred_mode.mode == "each" and other:
            yield (
                name,
                "all",
                f"`all`: {other[0]} is declared `{hints[other[0]]}`; inferred {inferred_mode.reason}",
            )
        else:
            yield name, inferred_mode.mode, inferred_mode.reason


def _columns(body: SqlTransform | PythonTransform, mode: str) -> tuple[str, ...]:
    """A declared `by` input has the columns of the output's key under the same names."""
    return tuple(part.column for part in body.partition_by) if mode == "by" else ()


def _folded(
    component: Component,
    body: SqlTransform | PythonTransform,
    slots: tuple[Slot, ...],
    read: set[str] | None,
) -> tuple[Fold | None, tuple[Problem, ...]]:
    if body.previous is None:
        return None, ()
    previous_fold, problems = ordered_fold.fold(
        component, body.previous, ((s.name, s.mode) for s in slots), read
    )
    return previous_fold, tuple(problems)


# --- problems -----------------------------------------------------------------------------------


def _unread(place: Position, name: str, read: Iterable[str]) -> Problem:
    hint = did_you_mean(name, read) or "remove it"
    return place.problem("unused-input", f"the SQL does not read {name!r}", hint)


def _unbounded(
    body: SqlTransform, query: sql.AnalysedQuery, slots: Iterable[Slot]
) -> Iterator[Problem]:
    """Sessions over inputs that are read whole: any new row might join any two of them."""
    place = query.session_place()
    is_declared = any(hint.mode for hint in body.inputs)
    if place is None or is_declared or not body.is_written:
        return
    by_key = {slot.name for slot in slots if slot.mode == "by"}
    if all(names & by_key for names in query.session_inputs()):
        return
    message = (
        "session_window over inputs that are read whole: each late row would redo all sessions"
    )
    yield body.text.at(*place).problem("unbounded-session", message, _BOUND_OF_SESSIONS)


def _unset(component: Component, body: SqlTransform, query: sql.AnalysedQuery) -> Iterator[Problem]:
    """Parameters of the SQL that `params` gives no value."""
    for name in sorted(query.parameters - dict(body.params).keys()):
        hint = did_you_mean(name, dict(body.params)) or f"add it below params of {component.name}"
        place = body.text.at(*query.parameter_place(name))
        yield place.problem(
            "missing-parameter", f"the SQL uses :{name}, and params has no such name", hint
        )


def _unnamed(
    component: Component, body: PythonTransform, bundle: code.CodeBundle
) -> Iterator[Problem]:
    """Arguments of the function that are neither inputs nor what Headgate hands in."""
    available = {hint.name for hint in body.inputs} | {
        "params",
        "spark",
        ordered_fold.name_of(component),
    }
    for name, place in zip(bundle.arguments, bundle.places, strict=True):
        if name not in available:
            hint = _argument_hint(name, body)
            yield body.text.at(*place).problem(
                "missing-input", f"the function takes {name!r}, which is no input", hint
            )


def _argument_hint(name: str, body: PythonTransform) -> str:
    if name in dict(body.params):
        return f"constants come in one argument: params[{name!r}]"
    return (
        did_you_mean(name, (hint.name for hint in body.inputs))
        or f"name it: inputs: {{{name}: all}}"
    )


def _conflicts(
    component: Component, body: SqlTransform | PythonTransform, slots: tuple[Slot, ...]
) -> Iterator[Problem]:
    """Modes that do not go together, or not with the output's key."""
    modes = {slot.mode: slot.name for slot in slots}
    declared = {hint.name: hint.place for hint in body.inputs}
    place = next((declared[name] for name in modes.values() if name in declared), component.place)
    if "by" in modes and not body.partition_by and body.previous is None:
        message = f"{modes['by']} is read `by` a key, and no key is given"
        yield place.problem(
            "missing-key", message, "name the columns of the key: partition_by: [...]"
        )
    if "by" in modes and "each" in modes:
        message = f"{modes['each']} is read `each`, and {modes['by']} `by` a key"
        yield place.problem(
            "conflicting-keys", message, "read one of them `all`, or both `by` the key"
        )
    if body.partition_by and "each" in modes and "by" not in modes:
        message = f"{modes['each']} is read `each`: its partitions are those of the output"
        yield place.problem(
            "conflicting-keys", message, "read it `by` the key or `all`, or remove partition_by"
        )

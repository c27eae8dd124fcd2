"""Import of tables: an existing table becomes the newest generation of a transform.

    shop.totals  <-  delta:/lake/totals

    columns         the table is read with the columns of the component, or refused
      |
    copying         a dataflow of its own, `import_shop_totals`, reads the table and partitions its
      |             rows as the component does. Nothing of the component has changed so far
    verifying       if requested: the code computes a sample of partitions (`import_sample`). Where
      |             one differs, nothing is imported
    imported        one transaction: the component gets a salt, its rows are remembered under it
                    for the present inputs, and the dataflow of the import ends

The next plan takes the rows as it takes any output that is known. An interrupted import is repeated
and goes on.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice

from controlplane.core import tree
from controlplane.core.blueprint import QUARANTINE
from controlplane.core.blueprint.model import KeyColumn
from controlplane.core.blueprint.text_forms import LONGEST_NAME
from controlplane.core.compile.nodes import Transform
from controlplane.core.errors import ImportRefused, NotFound
from controlplane.core.model.answers import ImportAnswer, ImportSample
from controlplane.core.model.events import Event
from controlplane.core.model.states import PartialState, State, UnfinishedRun
from controlplane.core.plan import Decision, Planning
from controlplane.core.plan.transform import imports
from controlplane.core.plan.transform.case import Case, cut, half_built
from controlplane.core.plan.transform.input_states import consistent, offers
from controlplane.core.plan.transform.transform_decision import case_of
from controlplane.core.plan.work_keys import lacking
from controlplane.core.review import AnalyseRequest
from controlplane.core.review.column_diff import as_ddl
from controlplane.core.review.review_values import KnownSchema
from controlplane.core.tree import Entry
from controlplane.operations.change_audit import note_change
from controlplane.operations.context import Context
from controlplane.operations.desired import blueprints, branches, import_sample
from controlplane.operations.desired.compile_edit import edit_of
from controlplane.operations.desired.drafts import DraftSet, SentBlueprint
from controlplane.operations.planning import edit_review
from controlplane.operations.planning.snapshot import StoreSnapshot, desired, plan_now
from controlplane.operations.work import listings
from controlplane.ports.store import Tx
from dataplane.contract.encoding import digest
from dataplane.contract.globs import fixed_folder
from dataplane.contract.jobs import LINK
from dataplane.contract.schemas import Schema

FORMS = "delta:PATH, iceberg:PATH, parquet:FOLDER or dataset:DATAFLOW.DATASET"
MOVING = ("stale", "building")  # as a copy is that goes on by itself
MOST_LINKED = 1 << 40  # bytes of files that are linked as one partition
_PLACEHOLDER = re.compile(r"\{\w+\}")  # of a template of partition keys
MOST_PARTITIONS = 1_000_000  # of a table whose keys are renamed to those of the inputs


@dataclass(frozen=True, slots=True)
class ImportRequest:
    """The table `source` (of `FORMS`), and the columns of it that make the partition keys of a
    component which is read by the partitions of its inputs. `verify`: how many partitions are
    computed and compared before the import. `link`: the files of the table are taken as they are,
    so their names make the partition keys."""

    branch: str
    target: str
    source: str
    key: Sequence[str] = ()
    verify: int = 0
    link: bool = False

    @property
    def dataflow(self) -> str:
        """The one that copies the table. A long name ends with a digest."""
        name = "import_" + self.target.replace(".", "_")
        if len(name) <= LONGEST_NAME:
            return name
        end = digest("import-name/1", target=self.target).hex()[:12]
        return f"{name[: LONGEST_NAME - 13].rstrip('_')}_{end}"

    @property
    def file(self) -> str:
        """The file of its blueprint: no file of a user has this name. It differs for `a_b.c` and
        `a.b_c`, whose imports have the same dataflow."""
        return f"/{self.target}.import"

    @property
    def rows(self) -> str:
        """The dataset that has the copied rows."""
        return f"{self.dataflow}.rows"


def questions(ctx: Context, branch: str, target: str) -> tuple[AnalyseRequest, ...]:
    """The analysis that the columns of the component need from Spark, if any."""
    with ctx.read() as tx:
        _, requests = _columns(ctx, tx, branch, target)
    return requests


def proceed(ctx: Context, request: ImportRequest, unanswered: str = "") -> ImportAnswer:
    """Begin an import, or take the next step of it. `unanswered`: why Spark has not given the columns.

    Raises ImportRefused, NotFound, BranchProtected, and InvalidBlueprint for a place that may not be
    read.
    """
    with ctx.read() as tx:
        node = _target(ctx, tx, request)
        _require_own(tx, request)
        columns, _ = _columns(ctx, tx, request.branch, request.target)
    if columns.schema is None or not columns.is_exact:
        why = unanswered or columns.why or "Spark has not analysed it"
        message = (
            f"the columns of {request.target} are not known: {why}; wait until its inputs are read"
        )
        raise ImportRefused("import-not-ready", message)
    _require_fitting(ctx, request, columns.schema)
    text = json.dumps(_blueprint(node, request, as_ddl(columns.schema)), indent=1)
    sent = SentBlueprint(request.file, text, {})
    _require_listing(ctx, request, sent)
    blueprints.apply(ctx, request.branch, [sent])
    with ctx.begin() as tx:
        branches.require_editable(ctx, tx, request.branch)
        answer = _import_copied(ctx, tx, request, text)
    ctx.wake()
    if isinstance(answer, ImportRefused):
        raise answer
    return answer


def _columns(
    ctx: Context, tx: Tx, branch: str, target: str
) -> tuple[KnownSchema, tuple[AnalyseRequest, ...]]:
    nodes = desired(tx, branch, namespace=ctx.namespace)
    return edit_review.stored_columns(tx, branch, nodes, target)


def _require_fitting(ctx: Context, request: ImportRequest, schema: Schema) -> None:
    """Raises ImportRefused for a dataset with other columns. Tables elsewhere are read with those of
    the component, or not at all."""
    kind, _, dataset = request.source.partition(":")
    if kind != "dataset":
        return
    with ctx.read() as tx:
        has, _ = _columns(ctx, tx, request.branch, dataset)
    fault = imports.column_fault(has.schema, schema) if has.schema is not None else has.why
    if fault:
        raise ImportRefused("import-schema", f"{dataset} cannot be imported: {fault}")


def _require_listing(ctx: Context, request: ImportRequest, sent: SentBlueprint) -> None:
    """Request a listing of the table where its copy begins. Its place may have been listed long ago, by
    an earlier import or for another dataflow: rows of then are not to be imported."""
    with ctx.begin() as tx:
        if _is_live(tx, request, sent.text):
            return
        edit = edit_of(ctx, tx, request.branch, DraftSet.of([sent]))
        reads = listings.sources(edit.proposed, edit.proposed.order)
        own = [node for node in reads if node.dataset.startswith(f"{request.dataflow}.")]
        listings.request(tx, own, is_awaited=True)


def _is_live(tx: Tx, request: ImportRequest, text: str) -> bool:
    live = tx.blueprints.revisions(request.branch, [request.dataflow]).get(request.dataflow)
    return live is not None and live.text == text


def _require_own(tx: Tx, request: ImportRequest) -> None:
    """Raises ImportRefused where a user's dataflow has the name of the import's."""
    live = tx.blueprints.revisions(request.branch, [request.dataflow]).get(request.dataflow)
    if live is not None and live.file != request.file:
        message = (
            f"there is a dataflow {request.dataflow}, which the import would replace: rename it"
        )
        raise ImportRefused("import-refused", message)


def _target(ctx: Context, tx: Tx, request: ImportRequest) -> Transform:
    nodes = desired(tx, request.branch, namespace=ctx.namespace).nodes
    node = nodes.get(request.target)
    if node is None:
        raise NotFound(f"there is no dataset {request.target[:200]} in branch {request.branch}")
    if not node.is_transform:
        message = f"{request.target} is no transform: rows of a read component come from its source"
        raise ImportRefused("import-refused", message)
    if node.output or request.target + QUARANTINE in nodes:
        message = f"{request.target} has rules with `on_fail: quarantine`, and a table has no rows that were taken out"
        raise ImportRefused("import-refused", message)
    return node


# --- the dataflow that copies the table -----------------------------------------------------------


def _blueprint(
    node: Transform, request: ImportRequest, columns: dict[str, str]
) -> dict[str, object]:
    """The table read with these columns, and its rows in the partitions of the component."""
    return {
        "dataflow": request.dataflow,
        "description": f"copies {request.source} for an import into {request.target}",
        "timezone": str(node.spark["timezone"]),
        "components": _components(node, request, columns),
    }


def _components(
    node: Transform, request: ImportRequest, columns: dict[str, str]
) -> dict[str, object]:
    kind, _, place = request.source.partition(":")
    schema = ", ".join(f"{_quoted(name)} {ddl}" for name, ddl in columns.items())
    declared = {"refresh": "manual", "schema": schema, "schema_change": "fail"}
    if request.link:
        return {"rows": {"read": {**_linked_place(node, request), **declared}}}
    components: dict[str, object] = {}
    table = place if kind == "dataset" else "source"
    if kind != "dataset":
        components["source"] = {"read": {**_place(kind, place), **declared}}
    sql = f"SELECT {', '.join(map(_quoted, columns))} FROM {table}"
    transform: dict[str, object] = {"sql": sql, "inputs": {table: "all"}}
    if parts := _key_parts(node, request):
        transform["partition_by"] = parts
    components["rows"] = {"transform": transform}
    return components


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _place(kind: str, place: str) -> dict[str, object]:
    if kind in ("delta", "iceberg") and place:
        return {"connector": kind, "path": place}
    if kind == "parquet" and place:
        path = f"{place.rstrip('/')}/**/*.parquet"
        return {"connector": "files", "path": path, "format": "parquet"}
    raise ImportRefused("import-refused", f"a table is named as {FORMS}")


def _linked_place(node: Transform, request: ImportRequest) -> dict[str, object]:
    """The files as they are: their names make the partitions, or all are the only partition."""
    kind, _, place = request.source.partition(":")
    if kind not in ("parquet", "delta") or request.key:
        message = "--link takes files of parquet:FOLDER or delta:PATH as they are, without --key"
        raise ImportRefused("import-refused", message)
    if node.key:
        message = (
            f"the rows of {request.target} are partitioned by columns: import it without --link"
        )
        raise ImportRefused("import-refused", message)
    has_parts = any(slot.mode == "each" for slot in node.slots)
    if kind == "delta" and has_parts:
        message = f"{request.target} has partitions; linked files of a Delta table make only one"
        raise ImportRefused("import-refused", f"{message}: import it without --link")
    if kind == "delta":
        return {**_place(kind, place), LINK: True}
    path, template = _template(place)
    if has_parts != bool(template):
        example = "parquet:/archive/{day}.parquet" if has_parts else "parquet:/archive"
        message = f"{request.target} has {'partitions' if has_parts else 'one partition'}"
        raise ImportRefused("import-refused", f"{message}: name its files as {example}")
    read: dict[str, object] = {LINK: True, "hive_partitioning": False}
    if not has_parts:
        return {**_place(kind, place), **read, "group": {"by": "size", "bytes": MOST_LINKED}}
    return {**_place(kind, place), **read, "path": path, "partition": template}


def _template(place: str) -> tuple[str, str]:
    """The path of a place whose `{word}` make keys, and the template below its fixed folder; empty
    where there is no `{word}`."""
    path = _PLACEHOLDER.sub("*", place)
    if path == place:
        return place, ""
    return path, place.removeprefix(fixed_folder(path))


def _key_parts(node: Transform, request: ImportRequest) -> list[object]:
    if node.key:
        return [_part(part) for part in node.key]
    return list(request.key)


def _part(part: KeyColumn) -> object:
    if part.buckets:
        return {part.column: f"bucket {part.buckets}"}
    return {part.column: part.granule} if part.granule else part.column


# --- taking it ------------------------------------------------------------------------------------


def _import_copied(
    ctx: Context, tx: Tx, request: ImportRequest, text: str
) -> ImportAnswer | ImportRefused:
    """Import the rows that the blueprint `text` has copied, if all of them are there. A copy that
    failed ends; then the error."""
    tx.upkeep.collections()  # first: no collection begins before the rows have a build trace
    flow = request.target.partition(".")[0]
    answer: ImportAnswer = {
        "branch": request.branch,
        "target": request.target,
        "from": request.source,
        "dataflow": request.dataflow,
        "state": "copying",
        "partitions": 0,
        "rows": 0,
    }
    if not _is_live(tx, request, text):
        return answer  # another import of the same name came between
    plan, _ = plan_now(tx, request.branch, [request.dataflow], namespace=ctx.namespace)
    failed = [d for d in plan.decisions if d.status == "failed" and d.error is not None]
    if failed:
        _end(ctx, tx, request)
        return _failure(failed[0])
    copied = plan.of(request.rows)
    if copied is None or copied.status in MOVING:
        return answer
    if copied.status != "up_to_date":
        return _standstill(copied)
    rows = tx.states.newest(request.branch, [request.rows])[request.rows]
    if request.verify:
        sample = _sample(ctx, tx, request, rows)
        if isinstance(sample, ImportRefused):
            return sample
        answer["sample"] = sample
        if sample["waiting"] or sample["differing"]:
            answer["state"] = "verifying" if sample["waiting"] else "differs"
            return answer
    tx.blueprints.force(request.branch, [request.target])
    _, facts = plan_now(tx, request.branch, [flow], namespace=ctx.namespace)
    case = _case(facts, request)
    root = _root(tx, case, rows)
    _require_whole_fold(tx, case, root)
    key = imports.key_of(case)
    assert key is not None  # the component has just been forced
    tx.traces.put_build(key, root, rows.schema)
    _begin_run(tx, case, half_built(case, root, rows.schema))
    tx.blueprints.set_paused(request.branch, request.target, False)
    _note(ctx, tx, request, rows)
    _end(ctx, tx, request)
    return {**answer, "state": "imported", "partitions": rows.partitions, "rows": rows.rows}


def _sample(
    ctx: Context, tx: Tx, request: ImportRequest, rows: State
) -> ImportSample | ImportRefused:
    """The comparison of some copied partitions with those that the component computes, or the error
    of its code. Raises ImportRefused."""
    flow = request.target.partition(".")[0]
    _, facts = plan_now(tx, request.branch, [flow], namespace=ctx.namespace)
    case = _case(facts, request)
    keys = import_sample.sample_keys(tx.nodes, rows.root, request.verify)
    names = {key: key for key in keys}
    if _root(tx, case, rows) != rows.root:
        names = {_plain(key) if case.leading else "": key for key in keys}
    return import_sample.check_sample(tx, facts, case, rows, names)


def _failure(decision: Decision) -> ImportRefused:
    assert decision.error is not None
    message = f"{decision.dataset}: {decision.error['message']}; nothing was imported"
    return ImportRefused("import-failed", message)


def _standstill(decision: Decision) -> ImportRefused:
    """The copy does not go on by itself: a client would repeat the import for ever."""
    why = decision.reason or decision.blocked_by
    message = f"{decision.dataset} is {decision.status}{f' ({why})' if why else ''}: nothing was imported so far"
    return ImportRefused("import-not-ready", f"{message}; once it can go on, repeat the import")


def _end(ctx: Context, tx: Tx, request: ImportRequest) -> None:
    blueprints.delete_within(ctx, tx, request.branch, request.dataflow)


def _case(facts: StoreSnapshot, request: ImportRequest) -> Case:
    """The component over the present states of its inputs. Raises ImportRefused."""
    planning = Planning(facts.desired, facts, request.branch, now=facts.tx.now())
    planning.holds = facts.holds()
    node = facts.desired.nodes[request.target]
    assert node.is_transform
    newest = offers(planning, node)
    chosen = consistent(planning, node, newest) if isinstance(newest, tuple) else None
    if chosen is None or not all(isinstance(of, State) for of in chosen):
        message = f"the inputs of {request.target} are not up to date: wait until they are, and repeat the import"
        raise ImportRefused("import-not-ready", message)
    return case_of(planning, node, chosen)


def _begin_run(tx: Tx, case: Case, imported: PartialState) -> None:
    """Begin a run on these inputs: newer ones count after the import. A partial root keeps the
    rows of a component that is paused for long."""
    node, branch = case.node, case.planning.branch
    tx.queue.drop_demands(branch, node.dataset)
    tx.states.drop_building(branch, node.dataset)
    if case.leading and all(i.slot.mode == "each" for i in case.parted):
        tx.states.put_building(imported)
    states = {i.slot.name: i.of.seq for i in case.inputs if isinstance(i.of, State)}
    tx.states.put_unfinished(UnfinishedRun(branch, node.dataset, node.lineage, states, cut(case)))


def _root(tx: Tx, case: Case, rows: State) -> bytes:
    """The copied rows under the partition keys of the component. Raises ImportRefused."""
    leading = [i.of.root for i in case.leading if i.slot.mode == "each"]
    if not leading:
        return _whole_root(tx, case, rows)
    entries = list(tree.scan(tx.nodes, rows.root))
    if not _strangers(tx, leading, (e.key for e in entries)):
        return rows.root
    if len(entries) > MOST_PARTITIONS:
        raise ImportRefused("import-keys", f"more than {MOST_PARTITIONS:,} partitions")
    renamed = sorted(Entry(_plain(e.key), e.fragment, e.content) for e in entries)
    strange = _strangers(tx, leading, (e.key for e in renamed))
    if strange:
        raise ImportRefused(
            "import-keys",
            f"{imports.surplus_fault(strange)}; name the columns that make the keys of the inputs with --key",
        )
    return tree.build(tx.nodes, renamed)


def _whole_root(tx: Tx, case: Case, rows: State) -> bytes:
    """Rows of their own keys, or of the only partition, whose key is a name where files are linked.
    Raises ImportRefused."""
    if case.node.key:
        return rows.root
    partitions = list(islice(tree.scan(tx.nodes, rows.root), 2))
    if len(partitions) > 1:
        message = f"{rows.dataset} has more than {MOST_LINKED >> 40} TiB: import it without --link"
        raise ImportRefused("import-keys", message)
    return tree.build(tx.nodes, [partition._replace(key="") for partition in partitions])


def _require_whole_fold(tx: Tx, case: Case, root: bytes) -> None:
    """Raises ImportRefused for a fold whose inputs have further partitions: those of a fold build on
    each other, so there is nothing to be put in between."""
    if case.node.fold is None:
        return
    if any(lacking(tx.nodes, i.of.root, root).count for i in case.leading):
        message = f"the table lacks partitions of the fold {case.node.dataset} that its inputs have"
        raise ImportRefused("import-keys", message)


def _strangers(tx: Tx, roots: Sequence[bytes], keys: Iterable[str]) -> list[str]:
    """The keys that none of these roots has."""
    strange = list(keys)
    for root in roots:
        present = tree.lookup(tx.nodes, root, strange).keys()
        strange = [key for key in strange if key not in present]
    return strange


def _plain(key: str) -> str:
    """`day=2013-01-05` as sources name it: `2013-01-05`."""
    return "/".join(part.partition("=")[2] for part in key.split("/"))


def _note(ctx: Context, tx: Tx, request: ImportRequest, rows: State) -> None:
    after = {"from": request.source, "rows": rows.rows, "partitions": rows.partitions}
    if request.verify:
        after["verified"] = min(request.verify, rows.partitions)
    note_change(ctx, tx, "import", request.target, after=after, branch=request.branch)
    body = {"actor": ctx.actor}
    tx.events.put([Event("operator.import", request.target, 1, body, branch=request.branch)])

"""A data plane in this process: takes claims and reports as a driver and a worker do, with SQLite
in Spark's place.

It lists with the product's own code, reads CSV with the standard library, and dies, stutters and
lies where it is told to. Does not belong here: what the results should be (model).
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import re
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, Literal, Protocol, TypeAlias, cast
from urllib.parse import unquote, urlsplit

from controlplane.core.errors import Fenced, NotFound
from controlplane.core.sql import PARTS
from controlplane.operations.context import Context
from controlplane.operations.work import claims, reports, rescue
from controlplane.ports.lake import ObjectStore
from dataplane.connectors.files.marker import target_gone
from dataplane.contract.claims import (
    CONTRACT,
    Claim,
    FilesTask,
    FragmentClaim,
    ObjectsTask,
    ParseTask,
    TaskSpec,
    TransformClaim,
    TransformTask,
    WriteTask,
    next_key,
)
from dataplane.contract.identity import MASK, Content, label_of
from dataplane.contract.jobs import (
    AnalyseJob,
    CheckJob,
    DropRule,
    FragmentJob,
    InputJob,
    TransformJob,
    WriteJob,
    keys_read,
)
from dataplane.contract.keys import KeyPart
from dataplane.contract.kinds import DRIVER_KINDS, WORKER_KINDS, Kind
from dataplane.contract.profiles import (
    WHOLE,
    ColumnCounts,
    Profile,
    Sample,
    as_text,
    no_sample,
    shape_of,
)
from dataplane.contract.results import (
    MANIFEST,
    REASON,
    CheckAnswer,
    FileEntry,
    FollowingResult,
    Output,
    TaskError,
    TaskResult,
    WriteAnswer,
)
from dataplane.contract.schemas import Schema, column_names, field_of, struct_of
from dataplane.contract.source_objects import SourceObject
from dataplane.listing.files import list_files
from dataplane.listing.version_cache import Versions
from dataplane.task_failures import TaskFailure, error_of
from dataplane.transform.following import claim_after, with_followers
from tests.property.late_model import late_in_slice
from tests.property.model import (
    KEY,
    TIME,
    Columns,
    Dataset,
    Fragment,
    Key,
    Row,
    Value,
    by_key,
    content,
    index_key,
    key_column,
    key_of,
    parse_key,
    salted,
    task_key,
)

Fault: TypeAlias = Literal["none", "dies", "dies late", "dies between", "stutters", "straggles"]
Faults: TypeAlias = Callable[[Kind], Fault]
# Keys of tasks that compute parts of an aggregate, and of those that merge them
PART, MERGED = "part", ("merged",)
KINDS = sorted(WORKER_KINDS | DRIVER_KINDS)


class Lake(ObjectStore, Protocol):
    """With an address."""

    @property
    def uri(self) -> str: ...


class MemoryLake:
    """Objects in a dictionary."""

    uri = "memory:lake"

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}

    def read(self, path: str) -> bytes:
        if path not in self.objects:
            raise NotFound(f"no object {path}")
        return self.objects[path]

    def stream(self, path: str) -> Iterator[bytes]:
        return iter([self.read(path)])

    def stream_range(self, path: str, start: int, end: int) -> Iterator[bytes]:
        return iter([self.read(path)[start:end]])

    def put_if_absent(self, path: str, body: bytes) -> bool:
        return self.objects.setdefault(path, body) is body

    def sizes(self, prefix: str) -> dict[str, int]:
        return {
            path: len(body) for path, body in self.objects.items() if path.startswith(f"{prefix}/")
        }

    def link(self, source: str, target: str) -> None:
        self.put_if_absent(target, self.read(source))

    def delete_prefix(self, prefix: str) -> None:
        for path in self.sizes(prefix):
            del self.objects[path]

    def folders(self, prefix: str) -> Iterator[str]:
        start = f"{prefix}/" if prefix else ""
        return iter(
            sorted({p[len(start) :].split("/")[0] for p in self.objects if p.startswith(start)})
        )


@dataclass(frozen=True, slots=True)
class Work:
    """A task whose result was committed. `key` names it as the model does."""

    dataset: str
    partition: str
    key: Key


@dataclass(frozen=True, slots=True)
class Taken:
    """A claim, with who has it. `works`: its tasks by key."""

    driver: str
    claim: Claim
    works: Mapping[str, Work]


def _profile(schema: Schema, rows: Fragment, mode: str) -> Profile:
    """Of all rows: whole numbers are numbers, whatever else there is counts as texts."""
    count = len(rows.rows)
    columns: dict[str, ColumnCounts] = {}
    values: dict[str, list[Any]] = {}
    for i, column in enumerate(schema["fields"]):
        shape = shape_of(column["type"])
        found = [
            None if row[i] is None else row[i] if shape == "number" else str(row[i])
            for row in rows.rows
        ]
        have: list[Any] = [one for one in found if one is not None]
        known = shape in ("number", "text")
        columns[column["name"]] = {
            "shape": shape,
            "nulls": count - len(have),
            "nulls_of": count,
            "bounds": [min(have), max(have)] if have and known else [],
            "bounds_of": count if known else 0,
        }
        values[column["name"]] = found if known else [None] * count
    marks = [
        int.from_bytes(hashlib.sha256(repr(row).encode()).digest()[:4], "big") for row in rows.rows
    ]
    order = sorted(range(count), key=marks.__getitem__)
    sample: Sample = {
        "of": count,
        "below": WHOLE,
        "marks": [marks[i] for i in order],
        "values": {name: [of[i] for i in order] for name, of in values.items()},
    }
    return {"rows": count, "columns": columns, "sample": sample if mode == "full" else no_sample()}


@dataclass(slots=True)
class Engine:
    """`canonical` gives the plain form of a text, and `plain` a query that says the same as such a
    text in Python; `on_listed` hears of every listing that was reported."""

    ctx: Context
    lake: Lake
    canonical: Mapping[str, str]
    on_listed: Callable[[str], None]
    done: list[Work] = field(default_factory=list)
    targets: dict[str, dict[str, tuple[Row, ...]]] = field(default_factory=dict)
    fences: dict[tuple[str, str], int] = field(default_factory=dict)  # by target and partition
    # What makes its work the dataset's own
    salt: Callable[[str, str], object] = lambda dataset, partition: None
    plain: Mapping[str, str] = field(default_factory=dict)
    at_once: int = 1
    followers: int = 0  # tasks of followers that it came to
    _claims: int = 0
    _runs: dict[str, Work] = field(default_factory=dict)  # what a claim came to beyond its tasks

    def step(self, faults: Faults = lambda kind: "none") -> bool:
        """Take some claims to their end, with faults on the way; False if there was nothing to
        claim."""
        taken = list(islice(iter(self._take, None), self.at_once))
        for one, results in zip(taken, self._carry_out([one.claim for one in taken]), strict=True):
            self._finish(one, results, faults(one.claim["kind"]))
        return bool(taken)

    def _take(self) -> Taken | None:
        self._claims += 1
        driver = f"driver-{self._claims}"
        claim = claims.claim(self.ctx, driver, CONTRACT, KINDS, lake=self.lake.uri)
        if claim is None:
            return None
        self._check_unknown(claim)
        return Taken(
            driver,
            claim,
            {t["task"]: w for t in claim["tasks"] if (w := self._work(claim, t)) is not None},
        )

    def _finish(self, taken: Taken, results: list[TaskResult], fault: Fault) -> None:
        with self.ctx.store.read() as tx:
            known = {
                key.hex() for key in tx.traces.hits([bytes.fromhex(task) for task in self._runs])
            }
        self._end(taken.claim, taken.driver, results, fault)
        self._count(
            {task: w for task, w in self._runs.items() if task not in known | taken.works.keys()}
        )
        self._runs.clear()
        committed = self._count(taken.works, is_index=taken.claim["kind"] == "index")
        done = [r for r in results if r["state"] == "done" and r["task"] in taken.works]
        is_adopted = fault != "dies late" or committed == len(done)
        assert is_adopted, f"{taken.claim['dataset']}: finished work is not adopted"

    # --- what a claim is ------------------------------------------------------------------------

    def _check_unknown(self, claim: Claim) -> None:
        keys = [bytes.fromhex(t["task"]) for t in claim["tasks"]]
        with self.ctx.store.read() as tx:
            known = set(tx.traces.memos(keys) if claim["kind"] == "index" else tx.traces.hits(keys))
        assert not known, f"{claim['dataset']}: dispatched although it has a trace (I6)"

    def _work(self, claim: Claim, task: TaskSpec) -> Work | None:
        match claim["kind"]:
            case "parse":
                parsed = cast("ParseTask", task)
                paths = [path for o in parsed["objects"] if (path := path_of(o["uri"])).exists()]
                texts = [path.read_text("utf-8", "surrogateescape") for path in paths]
                inferred = tuple(parsed.get("inferred", ()))
                null = claim["job"]["options"].get("nullValue", "")
                key = parse_key(texts, column_names(parsed["columns"]), inferred, null)
                key = salted(key, self.salt(claim["dataset"], task["partition"]))
            case "index":
                key = index_key(self._held(task), column_names(claim["job"]["schema"]))
            case "transform":
                job, params = claim["job"], cast("Mapping[str, int]", claim["job"]["params"])
                if PARTS in job["inputs"] and job["inputs"][PARTS]["mode"] != "each":
                    return Work(claim["dataset"], task["partition"], MERGED)
                slots = {n: self._slot(job, task, n) for n in job["inputs"]}
                if job["language"] == "sql" and ("_g0" in job["sql"] or "_p0" in job["sql"]):
                    own = self.salt(claim["dataset"], "")
                    key = (
                        PART,
                        job["sql"],
                        tuple(sorted(params.items())),
                        tuple(sorted(slots.items())),
                        own,
                    )
                    return Work(claim["dataset"], task["partition"], key)
                key = task_key(self._code(job), params, slots, is_dealt=_is_dealt(job))
                key = salted(key, self.salt(claim["dataset"], task["partition"]))
            case _:
                return None
        return Work(claim["dataset"], task["partition"], key)

    def _code(self, job: AnalyseJob) -> str:
        code = self.canonical[
            _unrenamed(job["sql"]) if job["language"] == "sql" else job["modules"][job["main"]]
        ]
        reaches = [given["reach"] for given in job["inputs"].values() if "reach" in given]
        return " ".join([code, *(f"{r['before_s']} {r['after_s']}" for r in reaches)])

    def _slot(self, job: TransformJob, task: TaskSpec, name: str) -> Key:
        given = job["inputs"][name]
        return (
            given["mode"],
            content(self._fragments(job, task, name)),
            column_names(given["schema"]),
        )

    def _fragments(self, job: TransformJob, task: TaskSpec, name: str) -> list[Fragment]:
        given = job["inputs"][name]
        paths = (
            job["shared"][name]
            if given["mode"] == "all"
            else cast("FilesTask", task)["slots"][name]
        )
        found = [self.fragment(path) for path in paths]
        return (
            found
            if given["mode"] != "by"
            else [
                _with_key(
                    found,
                    column_names(given["schema"]),
                    keys_read(given, task["partition"]),
                    _key_of(given)[0]["column"],
                )
            ]
        )

    def _held(self, task: TaskSpec) -> Fragment:
        """One partition of an input, in however many files; in none, if a result that was spoilt
        said so."""
        found = [self.fragment(path) for path in cast("FilesTask", task)["slots"][""]]
        return Fragment(
            found[0].columns if found else (), tuple(row for f in found for row in f.rows)
        )

    def fragment(self, path: str) -> Fragment:
        found = json.loads(self.lake.read(path))
        return Fragment(tuple(found["columns"]), tuple(map(tuple, found["rows"])))

    def _count(self, works: Mapping[str, Work], *, is_index: bool = False) -> int:
        """Those that were committed. A memo of a parse task tells the types of files that it could
        not read."""
        with self.ctx.store.read() as tx:
            keys = [bytes.fromhex(task) for task in works]
            traces = tx.traces.memos(keys).keys() if is_index else tx.traces.hits(keys).keys()
        committed = [w for task, w in works.items() if bytes.fromhex(task) in traces]
        self.done += committed
        return len(committed)

    # --- how an attempt ends ----------------------------------------------------------------------

    def _end(self, claim: Claim, driver: str, results: list[TaskResult], fault: Fault) -> None:
        kept = results[::2] if fault == "dies between" else results
        if claim["kind"] in ("parse", "index", "transform") and fault not in ("dies", "straggles"):
            manifest = {
                "contract": CONTRACT,
                "attempt": claim["attempt"],
                "results": kept,
                "versions": {},
            }
            self.lake.put_if_absent(f"{claim['prefix']}/{MANIFEST}", json.dumps(manifest).encode())
        if fault.startswith("dies") or fault == "straggles":
            self._rescue(claim, fault)
        if fault in ("none", "stutters"):
            self._report(claim, driver, results)
        if fault in ("straggles", "stutters"):
            self._report_in_vain(claim, driver, results)
        if claim["kind"] == "list" and fault in ("none", "stutters"):
            self.on_listed(claim["job"]["listing"])

    def _report(self, claim: Claim, driver: str, results: list[TaskResult]) -> None:
        reports.report(self.ctx, driver, claim["attempt"], results, lake=self.lake)

    def _report_in_vain(self, claim: Claim, driver: str, results: list[TaskResult]) -> None:
        try:
            self._report(claim, driver, results)
        except Fenced:
            return
        raise AssertionError("an attempt that is over was heard again (I2)")

    def _rescue(self, claim: Claim, reason: str) -> None:
        with self.ctx.store.read() as tx:
            attempt = tx.queue.attempts([claim["attempt"]])[claim["attempt"]]
        rescue.adopt(self.ctx, attempt, self.lake, reason=reason)

    # --- doing it ---------------------------------------------------------------------------------

    def _carry_out(self, claims: Sequence[Claim]) -> Sequence[list[TaskResult]]:
        """Results of each."""
        return [self._one(claim) for claim in claims]

    def _one(self, claim: Claim) -> list[TaskResult]:
        results = [self._result(claim, t) for t in claim["tasks"]]
        if claim["kind"] not in ("parse", "transform"):
            return results
        results = self._with_followers(claim, results, {t["task"] for t in claim["tasks"]})
        came_to = dict(self.followed(claim, results))
        self.followers += len(came_to)
        self._runs.update(came_to)
        return results

    def _with_followers(
        self, claim: FragmentClaim, results: list[TaskResult], done: set[str]
    ) -> list[TaskResult]:
        then: dict[str, list[FollowingResult]] = {}
        for follower in claim["job"].get("followers", ()):
            following, heads = claim_after(claim, follower, results, done)
            computed = [self._result(following, t) for t in following["tasks"]]
            computed = self._with_followers(following, computed, done)
            for head, after in zip(heads, with_followers(following, computed), strict=True):
                then.setdefault(head, []).extend(after)
        return [{**r, "then": then[r["task"]]} if then.get(r["task"]) else r for r in results]

    def followed(
        self, claim: FragmentClaim, results: Sequence[TaskResult]
    ) -> Iterator[tuple[str, Work]]:
        """What these results say that followers of the claim came to."""
        of_tasks = {one["task"]: one for r in results for one in r.get("then", ())}
        for follower in claim["job"].get("followers", ()):
            following, _ = claim_after(claim, follower, results, set())
            tasks = [t for t in following["tasks"] if t["task"] in of_tasks]
            for task in tasks:
                work = self._work(following, task)
                assert work is not None
                yield task["task"], work
            further = [
                cast(
                    "TaskResult",
                    {**of_tasks[t["task"]], "state": "done", "then": list(of_tasks.values())},
                )
                for t in tasks
            ]
            yield from self.followed({**following, "tasks": tasks}, further)

    def _result(self, claim: Claim, task: TaskSpec) -> TaskResult:
        result: TaskResult = {"task": task["task"], "epoch": task["epoch"], "state": "done"}
        try:
            match claim["kind"]:
                case "list":
                    result["result"] = list_files(claim["job"], Versions())
                case "footers":
                    result["result"] = {"misread": []}
                case "infer" | "parse" if any(
                    _version(o["uri"]) != o["version"] for o in objects_of(task)
                ):
                    result["state"] = "void"
                case "infer":
                    names = [c for o in objects_of(task) for c in o["columns"] or ()]
                    result["result"] = {"schema": schema_of(tuple(dict.fromkeys(names)))}
                case "analyse":
                    result["result"] = {"schema": schema_of(self._query(claim["job"], {}).columns)}
                case "check":
                    result["result"] = self._check(claim["job"], cast("FilesTask", task))
                case "write":
                    result["result"] = self._write(claim["job"], cast("WriteTask", task))
                case "parse":
                    self._store(
                        claim, task, parse(cast("ParseTask", task), claim["job"]["options"]), result
                    )
                case "index":
                    result["result"] = {
                        "keys": _keys([self._held(task)], column_names(claim["job"]["schema"]))
                    }
                case "transform":
                    self._transform(claim, cast("TransformTask", task), result)
        except (TaskFailure, ValueError, sqlite3.Error) as e:
            error = error_of(e) if isinstance(e, TaskFailure) else user_error(str(e))
            result |= {"state": "failed", "error": error}
        return result

    def _transform(self, claim: TransformClaim, task: TransformTask, result: TaskResult) -> None:
        given = {n: self._fragments(claim["job"], task, n) for n in claim["job"]["inputs"]}
        rows = self._query(claim["job"], given)
        if _is_dealt(claim["job"]):
            self._deal(claim, task, rows, result)
        else:
            self._store(claim, task, rows, result)
        if then := list(self._run(claim, task, result)):
            result["then"] = then

    def _run(
        self, claim: TransformClaim, head: TransformTask, result: TaskResult
    ) -> Iterator[FollowingResult]:
        """The tasks after one of a fold, until something comes out as it was, or fails."""
        spec = head
        for one in head.get("then", ()):
            if result["content"] == spec["was"]:
                return
            key = next_key(claim["job"], one["ids"], Content(*result["content"])).hex()
            slots = one["slots"] | {
                claim["job"]["fold"]["name"]: [f["path"] for f in result["files"]]
            }
            spec = {
                **head,
                "task": key,
                "partition": one["partition"],
                "slots": slots,
                "was": one["was"],
            }
            result = {"task": key, "epoch": head["epoch"], "state": "done"}
            given = {n: self._fragments(claim["job"], spec, n) for n in claim["job"]["inputs"]}
            try:
                self._store(claim, spec, self._query(claim["job"], given), result)
            except (ValueError, sqlite3.Error):
                return
            if work := self._work(claim, spec):
                self._runs[key] = work
            yield cast("FollowingResult", {**result, "partition": spec["partition"]})

    def _query(self, job: AnalyseJob, given: Mapping[str, Sequence[Fragment]]) -> Fragment:
        with sqlite3.connect(":memory:") as connection:
            for name, i in job["inputs"].items():
                columns = column_names(i["schema"]) or ("_nothing",)
                marks = ", ".join("?" * len(columns))
                connection.execute(f"CREATE TABLE {i['view']} ({', '.join(columns)})")
                rows = (row for f in given.get(name, ()) for row in f.under(columns))
                connection.executemany(f"INSERT INTO {i['view']} VALUES ({marks})", rows)
            sql = job["sql"] if job["language"] == "sql" else self.plain[self._code(job)]
            cursor = connection.execute(sql, job["params"])
            return Fragment(tuple(d[0] for d in cursor.description), tuple(cursor.fetchall()))

    def _check(self, job: CheckJob, task: FilesTask) -> CheckAnswer:
        """How many rows fail, with the first of them."""
        columns = column_names(job["schema"] if job["unique"] else job["shown"])
        paths = job["shared"][""] if job["unique"] else task["slots"][""]
        rows = [row for path in paths for row in self.fragment(path).under(columns)]
        failing = repeated(rows) if job["unique"] else failing_rows(columns, rows, job["check"])
        shown = sorted({json.dumps(dict(zip(columns, row, strict=True))) for row in failing})
        return {"rows": len(rows), "failing": len(failing), "examples": shown[:20]}

    def _store(
        self,
        claim: FragmentClaim,
        task: TaskSpec,
        rows: Fragment,
        result: TaskResult,
        key: str = "",
    ) -> None:
        rows, taken_out = _kept(claim["job"], task, rows, result)
        label = label_of(bytes.fromhex(task["task"])) + key
        kept = self._output(claim, label, rows)
        result["schema"], result["content"], result["files"] = (
            kept["schema"],
            kept["content"],
            kept["files"],
        )
        if "profile" in kept:
            result["profile"] = kept["profile"]
        if any(d.get("quarantine") for d in _drops(claim["job"])):
            result["quarantine"] = self._output(claim, f"{label}-q", taken_out)

    def _output(self, claim: Claim, label: str, rows: Fragment) -> Output:
        path = f"{claim['prefix']}/_fragment={label}/0.parquet"
        body = json.dumps({"columns": rows.columns, "rows": rows.rows}).encode()
        files: list[FileEntry] = []
        if rows.rows:
            self.lake.put_if_absent(path, body)
            files = [{"path": path, "size": len(body), "rows": len(rows.rows), "stats": {}}]
        found: Output = {
            "schema": schema_of(rows.columns),
            "content": list(fingerprint(rows)),
            "files": files,
        }
        mode = (
            claim["job"].get("profile", "full")
            if claim["kind"] in ("parse", "transform")
            else "off"
        )
        return (
            found
            if mode == "off"
            else {**found, "profile": as_text(_profile(found["schema"], rows, mode))}
        )

    def _deal(
        self, claim: TransformClaim, task: TaskSpec, rows: Fragment, result: TaskResult
    ) -> None:
        """An output for each key."""
        rows, _ = _kept(claim["job"], task, rows, result)
        outputs: dict[str, Output] = {}
        for key, some in by_key(Dataset(rows.columns, {"": rows})).items():
            one: TaskResult = {"task": result["task"], "epoch": 0, "state": "done"}
            self._store(claim, task, Fragment(rows.columns, tuple(some)), one, key)
            outputs[key] = {
                "files": one["files"],
                "content": one["content"],
                "schema": one["schema"],
            }
        files = [f for output in outputs.values() for f in output["files"]]
        schema = schema_of(rows.columns)
        result |= {
            "schema": schema,
            "content": list(fingerprint(rows)),
            "files": files,
            "outputs": outputs,
        }

    def _write(self, job: WriteJob, task: WriteTask) -> WriteAnswer:
        if job.get("goes_on") and job["path"] not in self.targets:
            raise target_gone(job["path"])
        target = self.targets.setdefault(job["path"], {})
        place, generation = (job["path"], task["partition"]), task["generation"]
        if self.fences.setdefault(place, generation) > generation:
            raise ValueError(
                f"{place} has seen generation {self.fences[place]}, this is of generation {generation}"
            )
        self.fences[place] = generation
        if task.get("remove"):
            target.pop(task["partition"], None)
            return {"rows": 0, "bytes": 0}
        columns = column_names(job["schema"])
        if "fragments" in task:  # a whole generation
            files = [e["path"] for f in task["fragments"] for e in f["files"] * f["copies"]]
            target.clear()
            target[""] = tuple(r for p in files for r in self.fragment(p).under(columns))
            return {"rows": len(target[""]), "bytes": 0}
        target[task["partition"]] = tuple(
            r for p in task["files"] for r in self.fragment(p).under(columns)
        )
        return {"rows": len(target[task["partition"]]), "bytes": 0}


def failing_rows(columns: Columns, rows: Sequence[Row], check: str) -> list[Row]:
    """Those for which a condition is false."""
    with sqlite3.connect(":memory:") as connection:
        connection.execute(f"CREATE TABLE rows ({', '.join(columns) or '_nothing'})")
        marks = ", ".join("?" * max(len(columns), 1))
        connection.executemany(
            f"INSERT INTO rows VALUES ({marks})", [row or (None,) for row in rows]
        )
        found = connection.execute(f"SELECT rowid FROM rows WHERE NOT ({check})").fetchall()
    return [rows[number - 1] for (number,) in found]


def repeated(rows: Sequence[Row]) -> list[Row]:
    """All but the first of equal rows without a NULL."""
    whole = [row for row in rows if None not in row]
    return [row for row, count in Counter(whole).items() for _ in range(count - 1)]


def _drops(job: FragmentJob) -> Sequence[DropRule]:
    return job["expect"]["drop"] if "expect" in job else ()


def _kept(
    job: FragmentJob, task: TaskSpec, rows: Fragment, result: TaskResult
) -> tuple[Fragment, Fragment]:
    """Without the rows that the job takes out, which are counted; and those of them that are kept
    elsewhere."""
    taken_out: list[Row] = []
    wide = (*rows.columns, *column_names(cast("ParseTask", task).get("lacking") or schema_of(())))
    kept, dropped = list(rows.rows), dict[str, int]()
    for drop in _drops(job):
        present = list(Fragment(rows.columns, tuple(kept)).under(wide))
        if "late" in drop:
            earlier = cast("TransformTask", task)["earlier"]
            failing = set(late_in_slice(wide, present, drop["late"], earlier))
        else:
            failing = set(failing_rows(wide, present, drop["check"]))
        gone = [row for row in kept if (*row, *[None] * (len(wide) - len(row))) in failing]
        kept = [row for row in kept if row not in gone]
        dropped |= {drop["id"]: len(gone)} if gone else {}
        taken_out += [(*row, drop["name"]) for row in gone if drop.get("quarantine")]
    if dropped:
        result["metrics"] = {"dropped": dropped, "dropped_rows": sum(dropped.values())}
    return Fragment(rows.columns, tuple(kept)), Fragment((*rows.columns, REASON), tuple(taken_out))


def _is_dealt(job: TransformJob) -> bool:
    return "key" in job and not any(given["mode"] == "by" for given in job["inputs"].values())


def _key_of(given: InputJob) -> list[KeyPart]:
    return given["reach"]["key"] if "reach" in given else given["key"]


def _with_key(
    fragments: Sequence[Fragment], columns: Columns, keys: Sequence[str], column: str
) -> Fragment:
    place = columns.index(column)
    rows = (row for f in fragments for row in f.under(columns))
    # Parts have the key in a column of another name
    unit = TIME if column == TIME else KEY
    return Fragment(columns, tuple(row for row in rows if key_of(row[place], unit) in keys))


def _keys(fragments: Sequence[Fragment], columns: Columns) -> dict[str, list[int]]:
    found: dict[str, list[Row]] = {}
    for row in (row for f in fragments for row in f.under(columns)):
        column = key_column(columns)
        found.setdefault(key_of(row[columns.index(column)], column), []).append(row)
    return {key: list(fingerprint(Fragment(columns, tuple(rows)))) for key, rows in found.items()}


def _unrenamed(sql: str) -> str:
    """The user's text: datasets of other flows are read through views such as `a__d1 AS d1`."""
    return re.sub(r"\b([a-z])__(d\d+)( AS d\d+)?\b", r"\1.\2", sql)


def schema_of(columns: Columns) -> Schema:
    """Names that begin with s are texts, t is a time, all others are numbers."""
    return struct_of(
        field_of(c, "string" if c.startswith("s") or c == REASON else _number(c)) for c in columns
    )


def _number(column: str) -> str:
    return "timestamp_ntz" if column == TIME else "long"


def fingerprint(fragment: Fragment) -> Content:
    hashes = [
        hashlib.sha256(repr((fragment.columns, row)).encode()).digest() for row in fragment.rows
    ]
    sums = (sum(int.from_bytes(h[at : at + 8], "big") for h in hashes) & MASK for at in (0, 8))
    return Content(len(hashes), *sums)


def objects_of(task: TaskSpec) -> Sequence[SourceObject]:
    return cast("ObjectsTask", task)["objects"]


def parse(task: ParseTask, options: Mapping[str, str]) -> Fragment:
    """The rows of a task's files; ValueError for a line that is none."""
    columns, null = column_names(task["columns"]), options.get("nullValue", "")
    rows: list[Row] = []
    for source in task["objects"]:
        header, *lines = csv.reader(io.StringIO(path_of(source["uri"]).read_text()))
        for line in lines:
            if len(line) != len(header):
                raise ValueError(f"malformed line in {source['name']}: {line}")
            cells = dict(zip(header, line, strict=True))
            rows.append(tuple(_value(c, cells.get(c, ""), null) for c in columns))
    return Fragment(columns, tuple(rows))


def _value(column: str, text: str, null: str) -> Value:
    if text in ("", null):
        return None
    return text if column.startswith("s") else int(text)


def path_of(uri: str) -> Path:
    return Path(unquote(urlsplit(uri).path))


def _version(uri: str) -> str:
    path = path_of(uri)
    return f"sha256:{hashlib.sha256(path.read_bytes()).hexdigest()}" if path.exists() else "gone"


def user_error(message: str) -> TaskError:
    return {
        "kind": "user",
        "condition": "BROKEN",
        "sqlstate": None,
        "message": message,
        "file": None,
        "line": None,
        "column": None,
        "detail": "",
    }

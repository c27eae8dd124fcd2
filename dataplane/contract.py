"""What both planes must agree on byte for byte: canonical encoding, identities, wire records, failpoints.

Standard library only. Does not belong here: HTTP, Spark, storage, planning.
"""

from __future__ import annotations

import json
import os
import re
import signal
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, lru_cache
from hashlib import sha256
from typing import Any, Literal, NamedTuple, NotRequired, TypeAlias, TypedDict
from urllib.parse import quote, unquote

CONTRACT = 1
MASK = (1 << 64) - 1
LABEL = "_fragment"  # the folder level, and column, that separates the fragments of one attempt
TARGET_GONE = "target-gone"  # a write found nothing where the copy has been: all of it is to be written again
MANIFEST = "manifest.json"
REASON = "_reason"  # the column of quarantined rows that names what they failed
QUARANTINED = "quarantine"  # the output of a task, beside the one without a name, that holds rows taken out
EXPECTATION = "expect: "  # with a name: the `file` of an error in an expectation
NESTED = "\x1f"  # joins the names on the way to a nested field, among an object's own columns
DEALT = "/"  # begins the name of an output that is one of many partitions

# Names that both planes look for in users' SQL, in lower case. What reads files, calls classes or tells of the machine:
SQL_FORBIDDEN = frozenset({"java_method", "reflect", "try_reflect", "input_file_name", "input_file_block_start"}) | {
    *("input_file_block_length", "python_worker_logs", "read_files", "read_kafka", "read_state", "read_statestore"),
}
# What may read a file, by an option or a text among its arguments after the first.
SQL_DESCRIBED = frozenset({"from_protobuf", "to_protobuf"})
SQL_CONFIGURED = SQL_DESCRIBED | {"from_avro", "to_avro", "schema_of_avro", "from_xml", "to_xml", "schema_of_xml"}
SQL_PATH_OPTIONS = frozenset({"avroschemaurl", "rowvalidationxsdpath"})
SQL_DEFAULT = "exists_default"  # in the JSON of a schema: an expression that Spark runs where a field is missing
# What may stand in FROM with parentheses: it reads nothing but its arguments.
SQL_TABLE_FUNCTIONS = frozenset({"collations", "explode", "explode_outer", "inline", "inline_outer", "json_tuple"}) | {
    *("posexplode", "posexplode_outer", "range", "sql_keywords", "stack", "variant_explode", "variant_explode_outer"),
}

Json: TypeAlias = Any  # a value that json.loads can return
Schema: TypeAlias = dict[str, Json]  # Spark's JSON of a struct type, in canonical form


# --- canonical encoding -------------------------------------------------------------------------


class Encoded(bytes):
    """The canonical encoding of a value, made before: it stands for the value."""


def canonical(value: object) -> bytes:
    """Encode nested plain values injectively: 1, 1.0 and True differ; lists and tuples do not.

    Mappings must have text keys and are ordered by them.
    """
    kind: Any = type(value)
    return _encoder(kind)(value)


@cache
def _encoder(kind: type) -> Callable[[Any], bytes]:
    for base in kind.__mro__:
        if base in _ENCODERS:
            return _ENCODERS[base]
    if issubclass(kind, Mapping):
        return _mapping
    raise TypeError(f"no canonical encoding for {kind.__name__}")


def _text(value: str) -> bytes:
    body = value.encode()
    return b"s%d:%b" % (len(body), body)


def _integer(value: int) -> bytes:
    body = b"%d" % value
    return b"i%d:%b" % (len(body), body)


def _mapping(value: Mapping[str, object]) -> bytes:
    body = b"".join([canonical(k) + canonical(value[k]) for k in sorted(value)])
    return b"m%d:%b" % (len(body), body)


def _sequence(value: Iterable[object]) -> bytes:
    body = b"".join([canonical(v) for v in value])
    return b"l%d:%b" % (len(body), body)


_ENCODERS: dict[type, Callable[[Any], bytes]] = {
    type(None): lambda _: b"n;",
    bool: lambda value: b"b1;" if value else b"b0;",
    int: _integer,
    float: lambda value: b"f8:" + struct.pack(">d", value),
    str: _text,
    bytes: lambda value: b"x%d:%b" % (len(value), value),
    Encoded: bytes,
    dict: _mapping,
    list: _sequence,
    tuple: _sequence,
}


def digest(tag: str, **fields: object) -> bytes:
    """SHA-256 (32 bytes) over a versioned domain tag, such as `task/1`, and named fields."""
    return sha256(b"headgate/" + tag.encode() + b"\n" + canonical(fields)).digest()


# --- identities ---------------------------------------------------------------------------------


class Content(NamedTuple):
    """Fingerprint of a multiset of rows: row count and the sums, mod 2^64, of two 64-bit row hashes."""

    rows: int
    sum1: int
    sum2: int

    def plus(self, other: Content) -> Content:
        return Content(self.rows + other.rows, (self.sum1 + other.sum1) & MASK, (self.sum2 + other.sum2) & MASK)

    def minus(self, other: Content) -> Content:
        return Content(self.rows - other.rows, (self.sum1 - other.sum1) & MASK, (self.sum2 - other.sum2) & MASK)


EMPTY = Content(0, 0, 0)


def canonical_schema(schema: Mapping[str, Json]) -> Schema:
    """Spark's JSON of a struct type with all fields nullable and no metadata, nested types too."""
    return {"type": "struct", "fields": [_field(f) for f in schema["fields"]]}


def _field(field: Mapping[str, Json]) -> Json:
    return {"name": field["name"], "type": _type(field["type"]), "nullable": True, "metadata": {}}


def _type(kind: Json) -> Json:
    if not isinstance(kind, Mapping):
        return kind
    match kind["type"]:
        case "struct":
            return canonical_schema(kind)
        case "array":
            return {"type": "array", "elementType": _type(kind["elementType"]), "containsNull": True}
        case "map":
            key, value = _type(kind["keyType"]), _type(kind["valueType"])
            return {"type": "map", "keyType": key, "valueType": value, "valueContainsNull": True}
        case _:
            return dict(kind)


def column_names(schema: Schema) -> tuple[str, ...]:
    return tuple(f["name"] for f in schema["fields"])


def select_columns(schema: Schema, names: Iterable[str]) -> Schema:
    """The fields of `schema` whose name is in `names`, in the schema's own order."""
    wanted = set(names)
    return {"type": "struct", "fields": [f for f in schema["fields"] if f["name"] in wanted]}


def encoded(schema: Schema | Encoded) -> Encoded:
    """What many ids of one schema begin from; what was encoded before comes back as it is."""
    if isinstance(schema, Encoded):
        return schema
    return _encoded(json.dumps(schema))


@lru_cache(maxsize=1_000)  # schemas are of few kinds, and asked for once for each partition
def _encoded(text: str) -> Encoded:
    return Encoded(canonical(json.loads(text)))


def schema_id(schema: Schema) -> bytes:
    return digest("schema/1", schema=encoded(schema))


def fragment_id(schema: Schema | Encoded, content: Content) -> bytes:
    return digest("fragment/1", schema=encoded(schema), content=tuple(content))


def pack_id(schema: Schema, content: Content) -> bytes:
    """The rows of several fragments of one schema as one: never the id of a fragment that anything is made of."""
    return digest("pack/1", schema=encoded(schema), content=tuple(content))


def slot_id(content: Content, read_schema: Schema | Encoded) -> bytes:
    """What a task reads through one input: the rows' content under the read schema."""
    return digest("slot/1", content=tuple(content), schema=encoded(read_schema))


def task_key(logic: bytes, slots: Mapping[str, bytes], salt: bytes | None = None) -> bytes:
    return digest("task/1", logic=logic, slots=slots, salt=salt)


def next_key(job: Mapping[str, Json], task: Mapping[str, Json], before: Content) -> bytes:
    """The key of a task of a fold, once it is known what came out before it. `ids`: what it reads besides."""
    fold = job["fold"]
    slots = {name: bytes.fromhex(id) for name, id in {**fold["shared"], **task["ids"]}.items()}
    return task_key(bytes.fromhex(fold["logic"]), slots | {fold["name"]: slot_id(before, job["returns"])})


def source_id(objects: Sequence[SourceObject], *, named: bool) -> bytes:
    """Identity of the source objects behind one partition.

    `named`: the names belong to it, because they enter the rows or the versions do not identify bytes.
    """
    if named:
        return digest("source/1", objects=sorted((o["name"], o["version"]) for o in objects))
    return digest("source/1", objects=sorted(o["version"] for o in objects))


def source_of(objects: Sequence[SourceObject], metadata: Sequence[str]) -> bytes:
    """Source id of one partition's objects: names and times belong to it only if they enter the rows.

    Where a version does not identify bytes (an etag), the full location belongs to it.
    """
    if "modified" in metadata:
        objects = [{**o, "version": f"{o['version']}@{o['modified_ms']}"} for o in objects]
    if not all(map(is_of_bytes, objects)):
        objects = [{**o, "name": o["uri"]} for o in objects]
        return source_id(objects, named=True)
    return source_id(objects, named="name" in metadata)


def is_of_bytes(found: SourceObject) -> bool:
    """The version identifies the object's bytes, wherever it lies."""
    return found["version"].startswith("sha256:")


def label_of(task: bytes) -> str:
    """The text that names a task's fragment in the paths of its attempt: 32 hexadecimal digits."""
    return task.hex()[:32]


def encode_segment(text: str) -> str:
    """Percent-encode everything but [A-Za-z0-9._-] in UTF-8."""
    return quote(text, safe="").replace("~", "%7E")


def encode_key(key: str) -> str:
    """A partition key as one path segment that never is `.`, `..`, hidden or empty.

    The empty key is `_`; a leading dot or underscore is percent-encoded.
    """
    if not key:
        return "_"
    text = encode_segment(key)
    return f"%{ord(text[0]):02X}{text[1:]}" if text[0] in "._" else text


class KeyPart(TypedDict):
    """One part of an output key as a task reads it off rows: `name` stands in the key, `column` in the rows.

    `granule` is hour, day, month, year, or empty for the value itself; `buckets` > 0 asks for a hash bucket of it.
    """

    name: str
    column: str
    granule: str
    buckets: int


def column_key(names: Sequence[str], texts: Sequence[str | None]) -> str:
    """The partition key of rows that have these texts in the key's columns: `name=text` joined by `/`, NULL the bare
    name. Injective for equal names."""
    parts = zip(map(encode_segment, names), texts, strict=True)
    return "/".join(name if text is None else f"{name}={encode_segment(text)}" for name, text in parts)


def column_texts(key: str) -> list[str | None]:
    """The texts of which `column_key` made this key."""
    parts = (segment.partition("=") for segment in key.split("/"))
    return [unquote(text) if given else None for _, given, text in parts]


def pair_key(key: str, partition: str) -> str:
    """Name of the rows with an output key in one partition of an input. No key of columns holds a space."""
    return f"{key} {partition}"


# --- wire records -------------------------------------------------------------------------------

Kind: TypeAlias = Literal[
    "list", "infer", "analyse", "parse", "index", "transform", "pack", "check", "write", "connect"
]


class KindTraits(NamedTuple):
    """What the tasks of one kind have in common.

    `has_manifest`: results are also written beside the files, so that they outlive their driver. `remembered_as`: what
    is known once a task is done, and keeps it from being done again.
    """

    runs_on: Literal["worker", "driver"]
    has_manifest: bool
    remembered_as: Literal["trace", "memo", "listing", "target", "pack"]


# The one table of kinds. A new kind has a row here, and mypy names each `match` that does not know it.
KINDS: Mapping[Kind, KindTraits] = {
    "list": KindTraits("worker", has_manifest=False, remembered_as="listing"),
    "write": KindTraits("worker", has_manifest=False, remembered_as="target"),
    "connect": KindTraits("worker", has_manifest=False, remembered_as="memo"),
    "infer": KindTraits("driver", has_manifest=False, remembered_as="memo"),
    "analyse": KindTraits("driver", has_manifest=False, remembered_as="memo"),
    "check": KindTraits("driver", has_manifest=False, remembered_as="memo"),
    "index": KindTraits("driver", has_manifest=True, remembered_as="memo"),
    "parse": KindTraits("driver", has_manifest=True, remembered_as="trace"),
    "transform": KindTraits("driver", has_manifest=True, remembered_as="trace"),
    "pack": KindTraits("driver", has_manifest=True, remembered_as="pack"),
}
WORKER_KINDS = frozenset(kind for kind, traits in KINDS.items() if traits.runs_on == "worker")
DRIVER_KINDS = frozenset(kind for kind, traits in KINDS.items() if traits.runs_on == "driver")


class SourceObject(TypedDict):
    """One thing that a read connector lists. `version` starts with its kind: `sha256:` of the bytes, wherever they lie,
    or `etag:`, which means something together with `uri` only. It moves if and only if the data may have changed."""

    name: str
    uri: str
    size: int
    modified_ms: int
    version: str
    columns: list[str] | None  # own columns in file order, fields of structs by NESTED paths; None: cannot be told
    detail: NotRequired[Json]  # what its connector alone has to know to read it


class ListedPartition(TypedDict):
    """The objects behind one partition, and what a listing's tree holds of them."""

    key: str
    source: str  # source id, hex
    content: list[int]  # number of objects, their bytes, and 64 bits that tell where they lie
    objects: list[SourceObject]


class ListingResult(TypedDict):
    """What a `list` task found: partitions in order of their keys, inline or as lines of a gzip file."""

    digest: str  # SHA-256 (hex) over the lines of all partitions
    objects: int
    bytes: int
    columns: list[list[str] | None]  # distinct own columns of objects, in the order in which they first come
    all_columns: bool  # there are no more of them
    partitions: NotRequired[list[ListedPartition]]
    file: NotRequired[str]  # its name below the attempt's prefix
    after: NotRequired[str | None]  # these only add to a listing with this last key (None: without any)


def listing_line(partition: ListedPartition) -> bytes:
    """One partition as a line of a listing, the same for equal values. The objects come last: few readers want them."""
    ordered = {name: partition[name] for name in ("key", "source", "content", "objects")}
    return _encode(ordered).encode() + b"\n"


def listing_head(line: bytes) -> tuple[str, bytes, Content]:
    """Key, source id and content of a line, without reading the objects in it. ValueError if it is no such line."""
    head, found, _ = line.partition(_OBJECTS)  # no text in JSON holds a quotation mark without a backslash before it
    if not found:
        raise ValueError("a line of a listing without objects")
    key, source, content = _decode(f"{head.decode()}}}").values()
    return key, bytes.fromhex(source), Content(*content)


_OBJECTS = b',"objects":'
_encode, _decode = json.JSONEncoder(separators=(",", ":")).encode, json.JSONDecoder().decode


class FileEntry(TypedDict):
    """One Parquet file of a fragment. `path` is relative to the lake; `stats` are Delta's per-file statistics."""

    path: str
    size: int
    rows: int
    stats: Json


class Output(TypedDict):
    """One of several fragments of a task."""

    files: list[FileEntry]
    content: list[int]
    schema: Schema


class TaskResult(TypedDict):
    """What one task of an attempt came to. `done` results of parse, index and transform are in the manifest, too."""

    task: str  # task key, hex
    epoch: int
    state: Literal["done", "failed", "void"]  # void: a source object changed under the reader; list again
    files: NotRequired[list[FileEntry]]
    content: NotRequired[list[int]]
    schema: NotRequired[Schema]
    quarantine: NotRequired[Output]  # rows that were taken out, where the job asks for them
    then: NotRequired[list[Json]]  # of a fold: what came out of tasks after this one, in order
    outputs: NotRequired[dict[str, Output]]  # of a task that splits its rows by key; `files` are all of them
    result: NotRequired[Json]  # of list, infer, analyse, index, check and write
    error: NotRequired[TaskError]
    metrics: NotRequired[Json]


class TaskError(TypedDict):
    """An error in words. `line` and `column` count from 1 in the user's own text (`file` names which)."""

    kind: Literal["user", "infrastructure"]
    condition: str | None
    sqlstate: str | None
    message: str
    file: str | None
    line: int | None
    column: int | None
    detail: str  # the full trace
    attempt: NotRequired[str]  # added by the control plane: the one that it came of
    disrupted: NotRequired[int]  # likewise: how often something else ended the task's driver before


def task_error(kind: Literal["user", "infrastructure"], condition: str, message: str) -> TaskError:
    """An error with no place in a text."""
    return {
        "kind": kind,
        "condition": condition,
        "sqlstate": None,
        "message": message,
        "file": None,
        "line": None,
        "column": None,
        "detail": "",
    }


def infrastructure_error(condition: str, message: str) -> TaskError:
    """An error that is nobody's fault who wrote a blueprint."""
    return task_error("infrastructure", condition, message)


class Manifest(TypedDict):
    contract: int
    attempt: str
    results: list[TaskResult]
    versions: Json  # of Spark, Python and Headgate


class TaskSpec(TypedDict):
    """One task of a claim. Which of the optional fields are there depends on the job's kind."""

    task: str
    epoch: int
    partition: str
    objects: NotRequired[list[SourceObject]]  # parse
    columns: NotRequired[Schema]  # parse: the objects' own columns, in dataset order
    lacking: NotRequired[Schema]  # parse: columns that rows are dropped by, and that the objects do not have
    slots: NotRequired[dict[str, list[str]]]  # transform: files of `each` and `by` inputs; index, check, pack: of ""
    into: NotRequired[int]  # pack: the number of files
    was: NotRequired[list[int] | None]  # of a fold: a content that ends the run, for the next task read it before
    then: NotRequired[list[Json]]  # of a fold: tasks after this one, whose keys follow from what comes out
    files: NotRequired[list[str]]  # write: the partition's files
    remove: NotRequired[bool]  # write: the partition is to go
    generation: NotRequired[int]  # write: of the dataset when it was asked for; never goes down
    fragments: NotRequired[list[Json]]  # write of a whole generation: id, copies and files of each


class Claim(TypedDict):
    contract: int
    attempt: str
    dataset: str
    prefix: str  # the only folder, relative to the lake, that the attempt may write to
    lake: str  # URI of the lake
    lease_s: float
    kind: Kind
    job: Json  # what all tasks share; docs/protocol.md gives the fields by kind
    tasks: list[TaskSpec]


def partition_result(result: TaskResult | Output) -> tuple[Schema, Content, list[FileEntry]]:
    """The parts of a `done` parse or transform result."""
    return result["schema"], Content(*result["content"]), result["files"]


def output_results(result: TaskResult) -> Mapping[str, TaskResult | Output]:
    """The outputs of a `done` result by their names in a trace: DEALT and the key of each partition that its rows were
    dealt out to, else the result itself, without a name; and what was taken out."""
    dealt, taken_out = result.get("outputs"), result.get("quarantine")
    kept: dict[str, TaskResult | Output] = {"": result}
    if dealt is not None:
        kept = {DEALT + key: one for key, one in dealt.items()}
    return kept if taken_out is None else {**kept, QUARANTINED: taken_out}


# --- failpoints ---------------------------------------------------------------------------------


def failpoint(name: str) -> None:
    """Kill this process at a named place if HEADGATE_FAILPOINTS (comma-separated names) says so; for fault tests."""
    if name in os.environ.get("HEADGATE_FAILPOINTS", "").split(","):
        os.kill(os.getpid(), signal.SIGKILL)


# --- source names -------------------------------------------------------------------------------

GLOB_CHARACTERS = "*?[{\\"
SYSTEM_PLACES = ("/proc", "/dev", "/sys")  # where no dataflow reads or writes
REGEX_BYTES = 8 << 20  # of memory for a regular expression of a user's
MOST_BRACES = 100  # of one glob
MOST_ALTERNATIVES = 1_000  # paths that they may stand for


def braces_fault(glob: str) -> str | None:
    """Why a glob stands for more paths than anybody means; None if it does not."""
    if (braces := glob.count("{")) > MOST_BRACES:
        return f"it has {braces} braces, more than {MOST_BRACES}"
    if (count := _alternatives(glob)) > MOST_ALTERNATIVES:
        return f"its braces stand for {count} paths, more than {MOST_ALTERNATIVES}"
    return None


def _alternatives(glob: str) -> int:
    """How many paths the braces of a glob stand for. Nothing is expanded; a brace that is not closed counts for one."""
    counts, sums = [1], [0]  # of the sequence that is being read, and of the alternatives before it, by depth
    at = 0
    while at < len(glob):
        match glob[at]:
            case "\\":
                at += 1
            case "{":
                counts.append(1)
                sums.append(0)
            case "," if len(counts) > 1:
                sums[-1] += counts[-1]
                counts[-1] = 1
            case "}" if len(counts) > 1:
                inner = sums.pop() + counts.pop()
                counts[-1] *= inner
        at += 1
    return counts[0]


def fixed_folder(path_glob: str) -> str:
    """The folders before the first glob character, with the last `/`; all but the file name where there is none.

    A path that the glob finds is `fixed_folder(glob) + name`: `data/*.csv` gives `data/`, `*.csv` the empty text.
    """
    at = min((i for i in map(path_glob.find, GLOB_CHARACTERS) if i >= 0), default=len(path_glob))
    return path_glob[: path_glob.rfind("/", 0, at) + 1]


def key_of(name: str, template: str | None) -> str | None:
    """Partition key of a source object whose path below the fixed folder is `name`; None if it does not match.

    Without a template the key is the name. A template is matched folder by folder, and the key is the placeholders'
    texts joined by `/`. Everything but [A-Za-z0-9._-] is percent-encoded in each of them.
    """
    folders = name.split("/")
    found = folders if template is None else _match_folders(folders, template.split("/"))
    return None if found is None else "/".join(map(encode_segment, found))


def template_pieces(pattern: str) -> list[str]:
    """One folder of a template: literal texts at even places, `{word}` and `*` at odd ones.

    `{word}` stands for one or more characters, up to the first place where the text after it follows; `*` for any
    number, which stay out of the key: so several files share one. `{month}-*.csv` is `"" {month} - * .csv`.
    """
    return re.split(r"(\{[^{}]*\}|\*)", pattern)


def _match_folders(folders: Sequence[str], patterns: Sequence[str]) -> list[str] | None:
    if len(folders) != len(patterns):
        return None
    found: list[str] = []
    for folder, pattern in zip(folders, patterns, strict=True):
        texts = _match_folder(folder, template_pieces(pattern))
        if texts is None:
            return None
        found += texts
    return found


def _match_folder(text: str, pieces: Sequence[str]) -> list[str] | None:
    """The placeholders' texts. The leftmost match always suffices, so no template makes this slow."""
    first, wildcards, literals = pieces[0], pieces[1::2], pieces[2::2]
    if not wildcards:
        return [] if text == first else None
    if not text.startswith(first):
        return None
    start, found = len(first), []
    for number, (wildcard, literal) in enumerate(zip(wildcards, literals, strict=True), 1):
        least = start + (wildcard != "*")
        end = text.find(literal, least) if number < len(wildcards) else len(text) - len(literal)
        if end < least or not text.startswith(literal, end):
            return None
        if wildcard != "*":
            found.append(text[start:end])
        start = end + len(literal)
    return found

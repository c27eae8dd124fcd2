"""Identities of logic: what decides, besides the data, which rows a component produces.

Names of secrets, resources, descriptions, paths of outputs and positions in files do not belong to
an identity.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from controlplane.core.model.jobs import StoredJob
from dataplane.contract.encoding import digest
from dataplane.contract.identity import Content, schema_id
from dataplane.contract.jobs import JobSparkSettings, Parameters
from dataplane.contract.keys import KeyPart
from dataplane.contract.schemas import Schema

# Formats whose files have types of their own, which parsing asks since "parse/2"
FOOTERS = ("parquet", "orc", "avro")
SPARK_LINE = "4"  # results are shared within one major line of Spark


def listing_id(
    location: str,
    format: str,
    options: Mapping[str, str],
    partition: str | None,
    metadata: tuple[str, ...],
) -> bytes:
    """Equal locations that are listed in the same way share the listing."""
    return digest(
        "listing/1",
        location=location,
        format=format,
        options=options,
        partition=partition,
        metadata=sorted(metadata),
    )


def feed_columns_key(listing: bytes) -> bytes:
    """Under which the columns of what a feed offers are remembered."""
    return digest("feed-columns/1", listing=listing)


def parse_logic(
    format: str,
    options: Mapping[str, str],
    metadata: tuple[str, ...],
    on_bad_record: str,
    timezone: str,
    semantics: int,
    tag: str = "parse/1",
) -> bytes:
    """How bytes of one source object become rows; its location and the dataset's schema are not
    part of it."""
    return digest(
        tag,
        format=format,
        options=options,
        metadata=sorted(metadata),
        on_bad_record=on_bad_record,
        timezone=timezone,
        spark=SPARK_LINE,
        semantics=semantics,
    )


def footers_key(task: bytes) -> bytes:
    """Key of the question whether an earlier version's result is right in place of this task's."""
    return digest("footers/1", task=task)


def read_logic(
    parse: bytes, declared: Schema | None, schema_change: str, *, folders: bool = False
) -> bytes:
    """Logic of a read component as a whole: its parse logic and how its schema comes about.
    `folders`: those named `key=value` are columns. Their values are part of what identifies the
    objects, so the parse logic is the same."""
    optional = {"folders": True} if folders else {}
    return digest("read/1", parse=parse, declared=declared, schema_change=schema_change, **optional)


def transform_logic(
    language: str,
    code: bytes,
    params: Parameters,
    modes: Mapping[str, str],
    spark: JobSparkSettings,
    semantics: int,
    entrypoint: str = "",
    keyed: Mapping[str, object] | None = None,
    requirements: Sequence[str] = (),
    fold: Mapping[str, object] | None = None,
    libraries: Mapping[str, str] = MappingProxyType({}),
) -> bytes:
    """Logic of a transform: its code, parameters, input slots with their modes and semantic Spark
    settings; where its output is partitioned by columns, how (`keyed`); the packages that it
    requires, if any; where it reads its own partition before, as what (`fold`); the driver's
    libraries that it imports, if any, by their major versions."""
    optional: dict[str, object] = {} if keyed is None else {"keyed": keyed}
    if requirements:
        optional["requirements"] = list(requirements)
    if fold is not None:
        optional["fold"] = fold
    if libraries:
        optional["libraries"] = dict(libraries)
    return digest(
        "transform/1",
        language=language,
        code=code,
        entrypoint=entrypoint,
        params=params,
        modes=modes,
        spark=spark,
        line=SPARK_LINE,
        semantics=semantics,
        **optional,
    )


def lineage_id(logic: bytes, upstream: Mapping[str, bytes]) -> bytes:
    """Digest of a component's logic and, recursively, of all logic upstream of it."""
    return digest("lineage/1", logic=logic, upstream=upstream)


def volatile_logic(logic: bytes, uid: str) -> bytes:
    """Logic whose results are frozen for one component and shared with no other."""
    return digest("volatile/1", logic=logic, uid=uid)


def salt(
    uid: str, partition: str, period: str = "", force: int = 0, *, is_pinned: bool = False
) -> bytes:
    """Distinguishes the frozen results of one component's partitions by period, and by the last
    time they were forced. `is_pinned`: other code than the logic says gave them."""
    optional = {"pinned": True} if is_pinned else {}
    return digest("salt/1", uid=uid, partition=partition, period=period, force=force, **optional)


def analysis_key(logic: bytes, schemas: Mapping[str, Schema]) -> bytes:
    return digest(
        "analysis/1", logic=logic, schemas={name: schema_id(s) for name, s in schemas.items()}
    )


def inference_key(
    format: str, options: Mapping[str, str], timezone: str, sources: list[bytes]
) -> bytes:
    return digest(
        "inference/2", format=format, options=options, timezone=timezone, sources=sorted(sources)
    )


def index_id(schema: Schema, key: Sequence[KeyPart], timezone: str) -> bytes:
    """Identity of a key index: how a key assigns rows of one schema."""
    return digest("index/1", schema=schema_id(schema), key=key, timezone=timezone, line=SPARK_LINE)


def index_key(index: bytes, content: Content) -> bytes:
    """The contents by key of the rows with this content."""
    return digest("index-of/1", index=index, content=tuple(content))


def part_logic(
    code: bytes,
    params: Parameters,
    spark: JobSparkSettings,
    semantics: int,
    others: Mapping[str, bytes],
) -> bytes:
    """Logic of partial results over one part of an input; `others` are the slots that it reads of
    other inputs."""
    return digest(
        "part/1",
        code=code,
        params=params,
        spark=spark,
        line=SPARK_LINE,
        semantics=semantics,
        others=others,
    )


def build_key(logic: bytes, slots: Mapping[str, object], salt: bytes | None = None) -> bytes:
    """Whole-dataset memory: this logic over these roots (or contents) under these read schemas;
    with a salt, one component's own."""
    return digest("build/1", logic=logic, slots=slots, **({} if salt is None else {"salt": salt}))


def import_key(logic: bytes, slots: Mapping[str, object], salt: bytes) -> bytes:
    """As `build_key`, of rows that this logic has not given: they were imported under the salt."""
    return digest("import/1", logic=logic, slots=slots, salt=salt)


def run_key(task: bytes) -> bytes:
    """Memory of the tasks that were computed together with one, after it."""
    return digest("run/1", task=task)


def members_key(span: bytes) -> bytes:
    """Memory of the slices that a span is made of, by the id of its source or fragment."""
    return digest("members/1", span=span)


def job_id(body: StoredJob) -> bytes:
    return digest("job/1", body=body)


def target_id(
    namespace: str, component: str, path: str, format: str, options: Mapping[str, str]
) -> bytes:
    return digest(
        "target/1",
        namespace=namespace,
        component=component,
        path=path,
        format=format,
        options=options,
    )

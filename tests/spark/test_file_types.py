"""Types of Parquet, ORC and Avro under each type of a dataset, at the edges of their values: the value,
or a refusal."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal, localcontext
from io import BytesIO
from typing import Any

import pyarrow as pa
import pyarrow.orc
import pyarrow.parquet
import pytest

from dataplane.connectors.files.file_parsing import other_types
from dataplane.contract.joins import grow
from dataplane.contract.types import in_words
from dataplane.task_failures import TaskFailure
from tests.avro_files import avro_file
from tests.slices import part_of
from tests.spark.conftest import Lake, done, failed, read, schema_of, told_types

FIRST, LAST = map(datetime.fromisoformat, ("0001-01-01", "9999-12-31T23:59:59.999"))
OF_NANOS = list(
    map(datetime.fromisoformat, ("1678-01-01T00:00:00.123456", "2262-04-11T23:47:16.854775"))
)
TIMES = [FIRST, LAST, None]


def ends(kind: pa.DataType) -> pa.Array:
    """The least and the greatest integer."""
    bits, is_signed = kind.bit_width, pa.types.is_signed_integer(kind)
    least = -(2 ** (bits - 1)) if is_signed else 0
    return pa.array([least, least + 2**bits - 1, None], kind)


def decimals(precision: int, scale: int) -> pa.Array:
    with localcontext() as context:
        context.prec = 60
        most = Decimal(10**precision - 1).scaleb(-scale)
    return pa.array([most.copy_negate(), most, None], pa.decimal128(precision, scale))


FILES: dict[str, pa.Array] = {
    "bool": pa.array([True, False, None]),
    **{f"i{t.bit_width}": ends(t) for t in (pa.int8(), pa.int16(), pa.int32(), pa.int64())},
    **{f"u{t.bit_width}": ends(t) for t in (pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64())},
    "half": pa.array([1.5, -2.0, None], pa.float16()),
    "float": pa.array([3.4028234663852886e38, 1.401298464324817e-45, math.nan], pa.float32()),
    "double": pa.array([1.7976931348623157e308, 5e-324, -math.inf]),
    **{
        f"d{p}_{s}": decimals(p, s)
        for p, s in ((2, 0), (9, 0), (9, 2), (9, 9), (18, 0), (18, 4), (38, 0), (38, 10))
    },
    "huge": pa.array([Decimal(1), None, None], pa.decimal256(50, 2)),
    "text": pa.array(["", "é\U0001f389", None]),
    "bytes": pa.array([b"\xff\xfe", b"", None]),
    "fixed": pa.array([b"\x00\xff", b"ab", None], pa.binary(2)),
    "date": pa.array([FIRST.date(), LAST.date(), None]),
    "time": pa.array([timedelta(hours=1), None, None], pa.duration("us"))
    .cast(pa.int64())
    .cast(pa.time64("us")),
    **{
        f"ntz_{u}": pa.array(TIMES, pa.timestamp("us")).cast(pa.timestamp(u), safe=False)
        for u in ("ms", "us")
    },
    **{
        f"tz_{u}": pa.array(TIMES, pa.timestamp("us", "UTC")).cast(pa.timestamp(u, "UTC"), False)
        for u in ("ms", "us")
    },
    "ntz_ns": pa.array([*OF_NANOS, None], pa.timestamp("ns")),
    "tz_ns": pa.array([*OF_NANOS, None], pa.timestamp("ns", "UTC")),
    "void": pa.nulls(3),
}
DATASETS = (
    "BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "STRING", "BINARY", "DATE", "TIMESTAMP",
    "TIMESTAMP_NTZ", "DECIMAL(2,0)", "DECIMAL(5,2)", "DECIMAL(9,2)", "DECIMAL(12,2)", "DECIMAL(20,0)", "DECIMAL(38,18)",
)  # fmt: skip
NESTED = ("{}", "ARRAY<{}>", "STRUCT<x: {}>", "MAP<STRING, {}>")
WIDER = "DECIMAL(20,0) DECIMAL(38,18)"
WIDE = f"DECIMAL(12,2) {WIDER}"
READ = {  # by hand: file -> every type of DATASETS under which it is read
    "i8": f"TINYINT SMALLINT INT BIGINT FLOAT DOUBLE DECIMAL(5,2) DECIMAL(9,2) {WIDE}",
    "i16": f"SMALLINT INT BIGINT FLOAT DOUBLE DECIMAL(9,2) {WIDE}",
    "i32": f"INT BIGINT DOUBLE {WIDE}",
    "i64": f"BIGINT {WIDER}",
    "u8": f"SMALLINT INT BIGINT FLOAT DOUBLE DECIMAL(9,2) {WIDE}",
    "u16": f"INT BIGINT DOUBLE {WIDE}",
    "u32": f"BIGINT {WIDER}",
    "u64": f"{WIDER}",
    "half": "",
    "float": "FLOAT DOUBLE",
    "double": "DOUBLE",
    "d2_0": f"TINYINT SMALLINT INT BIGINT DECIMAL(2,0) DECIMAL(5,2) DECIMAL(9,2) {WIDE}",
    "d9_0": f"INT BIGINT {WIDE}",
    "d9_2": "DECIMAL(9,2) DECIMAL(12,2) DECIMAL(38,18)",
    "d9_9": "DECIMAL(38,18)",
    "d18_0": f"BIGINT {WIDER}",
    "d18_4": "DECIMAL(38,18)",
    "d38_0": "",
    "d38_10": "",
    "huge": "",
    "bool": "BOOLEAN",
    "text": "STRING",
    "bytes": "BINARY",
    "fixed": "BINARY",
    "date": "DATE TIMESTAMP_NTZ",
    "time": "",
    "ntz_ms": "TIMESTAMP_NTZ",
    "ntz_us": "TIMESTAMP_NTZ",
    "ntz_ns": "TIMESTAMP_NTZ",
    "tz_ms": "TIMESTAMP",
    "tz_us": "TIMESTAMP",
    "tz_ns": "TIMESTAMP",
    "void": " ".join(DATASETS),
}


def nested(values: pa.Array, form: str) -> pa.Array:
    """Each value within a list, a struct or a map."""
    match form:
        case "ARRAY<{}>":
            return pa.ListArray.from_arrays(pa.array(range(len(values) + 1), pa.int32()), values)
        case "STRUCT<x: {}>":
            return pa.StructArray.from_arrays([values], ["x"])
        case "MAP<STRING, {}>":
            keys = pa.array(["k"] * len(values))
            return pa.MapArray.from_arrays(
                pa.array(range(len(values) + 1), pa.int32()), keys, values
            )
        case _:
            return values


def plain(value: Any) -> Any:
    """The value within, in a form that is equal for equal values whatever their types."""
    if isinstance(value, dict):
        value = value["x"]
    while isinstance(value, list | tuple):
        value = value[-1]
    if isinstance(value, float):
        return "nan" if math.isnan(value) else value if math.isinf(value) else Decimal(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return Decimal(value)
    if isinstance(value, datetime):
        return value.replace(tzinfo=None)
    return datetime.combine(value, time.min) if isinstance(value, date) else value


def content(table: pa.Table, format: str = "parquet", **options: Any) -> bytes:
    target = BytesIO()
    if format == "avro":
        return avro_file(table)
    if format == "orc":
        pyarrow.orc.write_table(table, target)
    else:
        pyarrow.parquet.write_table(table, target, store_decimal_as_integer=True, **options)
    return target.getvalue()


def values_in(lake: Lake, result: Any) -> dict[str, list[Any]]:
    """The values of each column, as Arrow reads the fragment."""
    paths = [lake.root / f["path"] for f in done(result)["files"]]
    rows = pa.concat_tables([pyarrow.parquet.ParquetFile(p).read() for p in paths])
    return {name: [plain(v) for v in _micros(rows[name]).to_pylist()] for name in rows.column_names}


def _micros(values: Any) -> Any:
    kind = values.type
    return values.cast(pa.timestamp("us", kind.tz)) if pa.types.is_timestamp(kind) else values


def accepted(files: Sequence[str]) -> Iterator[tuple[str, str, str]]:
    """(file, form, type of the dataset) of each pair that is read; nested of each file's widest."""
    for name in files:
        kinds = [d for d in DATASETS if d in READ[name].split()]
        yield from ((name, NESTED[0], d) for d in kinds)
        yield from ((name, form, d) for form in NESTED[1:] for d in kinds[-1:])


def checked(
    lake: Lake,
    format: str,
    pairs: Sequence[tuple[str, str, str]],
    sizes: Sequence[int],
    files: Mapping[str, pa.Array] = FILES,
) -> None:
    """Read all pairs as columns, so many of one file at a time, and compare the values."""
    arrays = {f"c{i}": nested(files[f], form) for i, (f, form, _) in enumerate(pairs)}
    kinds = {f"c{i}": f"c{i} {form.format(d)}" for i, (_, form, d) in enumerate(pairs)}
    parts = [list(arrays)[at : at + size] for size in sizes for at in range(0, len(arrays), size)]
    tasks = []
    for number, part in enumerate(parts):
        file = content(pa.table({n: arrays[n] for n in part}), format)
        columns = schema_of(lake.spark, ", ".join(kinds[n] for n in part))
        tasks.append({"columns": columns, "objects": [lake.source(f"{number}.{format}", file)]})
    expected = {
        n: Counter(map(plain, _micros(files[pairs[i][0]]).to_pylist()))
        for i, n in enumerate(arrays)
    }
    for result, part in zip(
        lake.run("parse", read(format, timezone="Europe/Berlin"), tasks), parts, strict=True
    ):
        found = values_in(lake, result)
        wrong = {pairs[int(n[1:])]: found[n] for n in part if Counter(found[n]) != expected[n]}
        assert not wrong


# Pairs are alike: which of them are read is asked of all of them below, without Spark.
@pytest.mark.sweep
def test_each_value_of_parquet_is_the_value_of_the_dataset(lake: Lake) -> None:
    """Wide files have another reader of Spark's: of more than a hundred columns."""
    pairs = list(accepted(list(READ)))
    checked(lake, "parquet", part_of(pairs, 4), [90])
    checked(lake, "parquet", part_of(pairs, 3), [1000])


def test_each_value_of_orc_is_the_value_of_the_dataset(lake: Lake) -> None:
    """Without what ORC does not have. Its days before 1582 are those of another calendar, and Arrow
    writes times before 1970 as no reader knows them."""
    unknown = {"u8", "u16", "u32", "u64", "half", "huge", "time", "void", "fixed"}
    others = {"ntz_ms", "ntz_us", "ntz_ns", "tz_ms", "tz_ns"}
    late = {
        "date": pa.array([date(1600, 1, 1), LAST.date(), None]),
        "tz_us": FILES["tz_ns"].take([1, 1, 2]),
    }
    late |= {name: FILES[name] for name in READ if name not in unknown | others | late.keys()}
    checked(lake, "orc", list(accepted(list(late))), [90], late)


def test_each_value_of_avro_is_the_value_of_the_dataset(lake: Lake) -> None:
    """Without what Avro does not have: short integers, unsigned ones, half ones."""
    lacks = {"i8", "i16", "u8", "u16", "u32", "u64", "half", "huge", "time"}
    files = {name: FILES[name] for name in READ if name not in lacks}
    checked(lake, "avro", list(accepted(list(files))), [90], files)


def test_each_other_pair_is_refused_before_spark_reads(lake: Lake) -> None:
    tried = 0
    for name, values in FILES.items():
        for form in NESTED:
            source = lake.source(f"{name}.parquet", content(pa.table({"c": nested(values, form)})))
            for dataset in DATASETS:
                schema = schema_of(lake.spark, f"c {form.format(dataset)}")
                if dataset in READ[name].split():
                    other_types(read("parquet"), source, schema)  # type: ignore[arg-type]
                    continue
                with pytest.raises(TaskFailure, match="column c") as refused:
                    other_types(read("parquet"), source, schema)  # type: ignore[arg-type]
                assert refused.value.condition == "schema-retyped"
                assert str(lake.sources / f"{name}.parquet") in str(refused.value)
                tried += 1
    assert tried > 1000


MISREAD = {  # what Spark says of the second type when asked for the first one, without a word
    "INT": (pa.array([Decimal("1.25")], pa.decimal128(9, 2)), "DECIMAL(9,2)"),  # 125
    "TINYINT": (pa.array([300], pa.int32()), "INT"),  # 44
    "INT ": (pa.array([date(2024, 1, 1)]), "DATE"),  # 19723
    "STRING": (pa.array([b"\xff\xfe"]), "BINARY"),  # no UTF-8
    "TIMESTAMP_NTZ": (pa.array([OF_NANOS[0]], pa.timestamp("us", "UTC")), "TIMESTAMP"),  # of UTC
}


TOGETHER = {"INT": "decimal(12,2)", "TINYINT": "integer"}


def test_a_declared_type_that_a_file_does_not_have_is_told(lake: Lake) -> None:
    tasks = []
    for number, (kind, (values, _)) in enumerate(MISREAD.items()):
        source = lake.source(f"{number}.parquet", content(pa.table({"id": [1], "c": values})))
        tasks.append(
            {"columns": schema_of(lake.spark, f"id BIGINT, c {kind}"), "objects": [source]}
        )
    results = lake.run("parse", read("parquet", timezone="Europe/Berlin"), tasks)
    for number, (result, (kind, (_, own))) in enumerate(zip(results, MISREAD.items(), strict=True)):
        error, path = failed(result), lake.sources / f"{number}.parquet"
        assert error["condition"] == "schema-retyped"
        assert error["message"].startswith(
            f"{path}: column c is {own} in the file, and {kind.strip()} in the dataset"
        )
        have, found = (
            schema_of(lake.spark, f"c {kind}")["fields"][0]["type"],
            told_types(result)["c"],
        )
        # As the planner does where the type was inferred
        wide, conflicts = grow("c", have, found, is_text=False)
        assert ("" if conflicts else wide) == TOGETHER.get(kind, "")
        advice = (
            f"Declare it as {in_words(wide)} in `schema:`"
            if kind in TOGETHER
            else "No type holds both"
        )
        assert advice in error["message"]


def test_nanoseconds_are_read_to_the_microsecond_or_refused(lake: Lake) -> None:
    """What pandas writes for `datetime64[ns]`: with a zone and without, one file of a task among
    others, and nested."""
    columns = schema_of(
        lake.spark, "id BIGINT, ts TIMESTAMP_NTZ, at TIMESTAMP, s STRUCT<x: ARRAY<TIMESTAMP_NTZ>>"
    )

    def file(name: str, nanos: int) -> Any:
        times = pa.array([nanos, None], pa.int64()).cast(pa.timestamp("ns"))
        lists = pa.ListArray.from_arrays(pa.array([0, 1, 2], pa.int32()), times)
        nested = pa.StructArray.from_arrays([lists], ["x"])
        table = pa.table(
            {"id": [1, 2], "ts": times, "at": times.cast(pa.timestamp("ns", "UTC")), "s": nested}
        )
        return lake.source(name, content(table))

    fine = [file("old.parquet", -1_000), file("new.parquet", 1_704_110_400_123_456_000)]
    tasks = [
        {"columns": columns, "objects": objects}
        for objects in (fine, [file("fine.parquet", 0), file("x.parquet", 7)])
    ]
    good, bad = lake.run("parse", read("parquet", timezone="Europe/Berlin"), tasks)
    files = [pyarrow.parquet.ParquetFile(lake.root / f["path"]).read() for f in done(good)["files"]]
    rows = pa.concat_tables(files)
    times = {
        datetime.fromisoformat(t)
        for t in ("1969-12-31T23:59:59.999999", "2024-01-01T12:00:00.123456")
    } | {None}
    assert set(rows["ts"].to_pylist()) == times
    assert set(rows["at"].cast(pa.timestamp("us")).to_pylist()) == times
    assert {row["x"][0] for row in rows["s"].to_pylist()} == times
    error = failed(bad)
    assert (error["kind"], error["condition"]) == ("user", "time-too-fine")
    assert f"{lake.sources / 'x.parquet'}: column " in error["message"]
    assert (
        "1970-01-01 00:00:00.000000007" in error["message"]
        or "01:00:00.000000007" in error["message"]
    )

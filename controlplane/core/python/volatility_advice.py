"""What helps against a construct that makes Python code volatile."""

from __future__ import annotations

from typing import Final

_SORT: Final = (
    "sort the rows before, by columns that are different in each row: .orderBy(...), in "
    "pandas .sort_values(...)"
)

# By how a construct begins; the first that fits.
_CURES: Final = (
    (
        "import of random",
        "use numpy.random.default_rng(SEED), with a number, or a value of `params:`, as the seed",
    ),
    (
        "numpy.random",
        "use numpy.random.default_rng(SEED), with a number, or a value of `params:`, as the seed",
    ),
    (
        ".sample()",
        "in pandas pass random_state=NUMBER; in Spark filter by a hash of a key, as in pmod(xxhash64(id), 100) < 10",
    ),
    (".randomSplit()", "filter by a hash of a key, as in pmod(xxhash64(id), 100) < 10"),
    (".sampleBy()", "filter by a hash of a key, as in pmod(xxhash64(id), 100) < 10"),
    (
        ".zipWithUniqueId()",
        "number the rows by a window over columns that are different in each row",
    ),
    (".head()", _SORT),
    (".limit()", _SORT),
    (".offset()", _SORT),
    (".tail()", _SORT),
    (".take()", _SORT),
    (".dropDuplicates", "aggregate instead: .groupBy(columns).agg(min(...))"),
    (".drop_duplicates", "aggregate instead: .groupby(columns).min()"),
    ("pandas.", "declare the data as a component with `read:`, and name it in `inputs:`"),
    ("numpy.", "declare the data as a component with `read:`, and name it in `inputs:`"),
    ("pyarrow.compute.random", "pass initializer=NUMBER"),
    ("pyarrow.", "declare the data as a component with `read:`, and name it in `inputs:`"),
    ("pyspark.pandas.", "declare the data as a component with `read:`, and name it in `inputs:`"),
    ("spark.", "name the data in `inputs:`"),
    ("open()", "declare the data as a component with `read:`, and name it in `inputs:`"),
    ("hash()", "use zlib.crc32 or hashlib: hash() of a text differs in each process"),
)
_UNDECLARED: Final = "not declared in `requirements:`"


def cure(construct: str) -> str:
    """In words; empty where none is known."""
    if construct.endswith(_UNDECLARED):
        package = construct.removeprefix("import of ").partition(",")[0].partition(".")[0]
        return (
            f"add the package of {package} to `requirements:`, with its version: {package}==1.2.3"
        )
    return next((words for begin, words in _CURES if construct.startswith(begin)), "")

"""Libraries that drivers come with beside Spark: which of them code imports, and what its identity
holds of them."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import Final

# Results are shared within one major version of each, as within one of Spark. `pyproject.toml` pins
# the same majors.
LINES: Final[Mapping[str, str]] = {"numpy": "2", "pandas": "2", "pyarrow": "26"}

# What reads files, tables or the clipboard: a task is given its inputs.
READERS: Final = (
    *(
        "numpy.fromfile",
        "numpy.fromregex",
        "numpy.genfromtxt",
        "numpy.load",
        "numpy.loadtxt",
        "numpy.memmap",
    ),
    *("pandas.ExcelFile", "pandas.HDFStore", "pandas.io"),
    *(
        "pyarrow.OSFile",
        "pyarrow.flight",
        "pyarrow.fs",
        "pyarrow.input_stream",
        "pyarrow.memory_map",
    ),
    *(
        "pyarrow.csv",
        "pyarrow.dataset",
        "pyarrow.feather",
        "pyarrow.json",
        "pyarrow.orc",
        "pyarrow.parquet",
    ),
    *("pyspark.pandas.sql",),
)
_READS: Final = ("pandas.read_", "pyspark.pandas.read_")
_SEEDED: Final = (
    "MT19937",
    "PCG64",
    "PCG64DXSM",
    "Philox",
    "RandomState",
    "SFC64",
    "SeedSequence",
    "default_rng",
)
_GENERATOR: Final = "numpy.random.Generator"  # is made of one of these


def imported(trees: Mapping[str, ast.Module]) -> frozenset[str]:
    """The libraries that some module imports by name."""
    nodes = (node for tree in trees.values() for node in ast.walk(tree))
    return frozenset(root for node in nodes for root in _roots(node) if root in LINES)


def _roots(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.Import(names=names):
            yield from (alias.name.partition(".")[0] for alias in names)
        case ast.ImportFrom(module=str(module), level=0):
            yield module.partition(".")[0]


def reader(origin: str) -> str:
    """The name of a function that reads files or tables; empty for any other."""
    for prefix in _READS:
        if origin.startswith(prefix):
            return origin
    return next((name for name in READERS if origin == name or origin.startswith(f"{name}.")), "")


def is_seeded(origin: str, call: ast.Call) -> bool:
    """Whether a call makes a generator of numbers that are the same each time."""
    module, _, name = origin.rpartition(".")
    if origin == _GENERATOR:
        return True
    return module == "numpy.random" and name in _SEEDED and has_value(call, "seed", first=True)


def has_value(call: ast.Call, keyword: str, *, first: bool = False) -> bool:
    """Whether an argument is given, and is not the constant None. `first`: it may be the first one
    without a name."""
    values = [argument.value for argument in call.keywords if argument.arg == keyword]
    if first:
        values += call.args[:1]
    return any(not _is_none(value) for value in values)


def _is_none(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and value.value is None

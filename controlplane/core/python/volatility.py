"""What in the modules of a Python transform may give another result over the same inputs.

Closed tables, matched by imports, names and attributes; a name that is hidden on purpose stays
hidden. Flagging too much costs reuse, flagging too little costs truth.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from controlplane.core.python import libraries
from controlplane.core.sql import SqlProblem, clock, functions
from controlplane.core.sql.scan import scan

_SPARK_FUNCTIONS: Final = (
    functions.CHANCE | functions.ORDER_DEPENDENT | functions.AMBIENT | functions.SOURCE_FILE
)

# Importing one of these is enough.
_MODULES: Final = frozenset(
    {
        *(
            "asyncio",
            "ctypes",
            "ftplib",
            "getpass",
            "glob",
            "http",
            "imaplib",
            "importlib",
            "multiprocessing",
            "nntplib",
        ),
        *(
            "platform",
            "poplib",
            "pty",
            "random",
            "runpy",
            "secrets",
            "select",
            "selectors",
            "shutil",
            "signal",
            "smtplib",
        ),
        *(
            "socket",
            "socketserver",
            "sqlite3",
            "ssl",
            "subprocess",
            "telnetlib",
            "tempfile",
            "urllib.request",
        ),
        *("webbrowser", "xmlrpc"),
    }
)
# Anything of these, by where it was imported from.
_ORIGINS: Final = (
    *(
        "time.time",
        "time.time_ns",
        "time.monotonic",
        "time.perf_counter",
        "time.process_time",
        "time.localtime",
    ),
    *(
        "time.monotonic_ns",
        "time.perf_counter_ns",
        "time.process_time_ns",
        "time.thread_time",
        "time.thread_time_ns",
    ),
    *("time.clock_gettime", "time.clock_gettime_ns"),
    *(
        "time.gmtime",
        "time.ctime",
        "time.strftime",
        "time.asctime",
        "os.environ",
        "os.getenv",
        "os.urandom",
        "os.getpid",
    ),
    *(
        "os.listdir",
        "os.scandir",
        "os.walk",
        "os.stat",
        "os.system",
        "os.popen",
        "os.exec",
        "os.spawn",
        "os.fork",
    ),
    *(
        "os.getcwd",
        "os.uname",
        "os.cpu_count",
        "os.getlogin",
        "os.open",
        "os.read",
        "os.path.exists",
        "os.path.getmtime",
    ),
    *(
        "os.path.getsize",
        "os.path.isfile",
        "os.path.isdir",
        "uuid.uuid1",
        "uuid.uuid4",
        "uuid.getnode",
        "pathlib.Path",
    ),
    *(
        "io.open",
        "codecs.open",
        "sys.argv",
        "sys.path",
        "sys.stdin",
        "sys.modules",
        "numpy.random",
        "pyarrow.compute.random",
        "pyspark.SparkFiles",
    ),
)
_BUILTINS: Final = frozenset(
    {
        "__import__",
        "breakpoint",
        "compile",
        "eval",
        "exec",
        "globals",
        "hash",
        "id",
        "input",
        "open",
    }
)
_CLOCK_METHODS: Final = frozenset({"now", "today", "utcnow"})
_CLOCK_CLASSES: Final = ("datetime.date", "datetime.datetime", "pandas.Timestamp")
_CLOCK_TEXTS: Final = frozenset({"now", "today"})
_CLOCK_READERS: Final = frozenset({"Timestamp", "datetime64", "to_datetime"})  # of such texts
_UNORDERED_METHODS: Final = frozenset({"head", "limit", "offset", "tail", "take"})
_CHANCE_METHODS: Final = frozenset({"randomSplit", "sample", "sampleBy", "zipWithUniqueId"})
_KEEPING_METHODS: Final = frozenset(
    {"dropDuplicates", "drop_duplicates", "dropDuplicatesWithinWatermark"}
)
_EFFECTS: Final = frozenset({"foreach", "foreachPartition", "write", "writeStream", "writeTo"})
_SORTING_METHODS: Final = frozenset({"orderBy", "sort", "sort_index", "sort_values"})
_PANDAS_ON_SPARK: Final = "pyspark.pandas"  # which samples each partition of the data by itself
_SESSION_METHODS: Final = frozenset({"active", "getActiveSession", "getOrCreate", "newSession"})
_SESSION_READS: Final = frozenset(
    {"catalog", "conf", "read", "readStream", "sparkContext", "sql", "streams", "table"}
)
_SQL_METHODS: Final = frozenset({"expr", "filter", "selectExpr", "sql", "where"})

_CLOCK_CONSTRUCTS: Final = (
    *(f".{name}()" for name in sorted(_CLOCK_METHODS)),
    *(f"{name}()" for name in sorted(functions.CLOCK | {clock.SECONDS})),
    *(f"{name}(" for name in sorted(_CLOCK_READERS)),
)

# Distributions whose module has another name.
_IMPORTED_AS: Final = {
    "beautifulsoup4": "bs4", "opencv_python": "cv2", "opencv_python_headless": "cv2", "pillow": "PIL",
    "python_dateutil": "dateutil", "pyyaml": "yaml", "scikit_image": "skimage", "scikit_learn": "sklearn",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class VolatileCode:
    """`line` counts from 1 in the text of `file`."""

    construct: str
    file: str
    line: int

    @property
    def is_clock(self) -> bool:
        return self.construct.startswith(("time.", *_CLOCK_CONSTRUCTS))


def volatile(trees: Mapping[str, ast.Module], requirements: tuple[str, ...]) -> list[VolatileCode]:
    """In order of file and line, each construct once a line."""
    modules = {
        "pyspark",
        *libraries.LINES,
        *sys.stdlib_module_names,
        *_own_names(trees),
        *map(module_of, requirements),
    }
    constructs = (
        VolatileCode(construct, path, node.lineno)
        for path, tree in trees.items()
        for node, construct in _constructs(tree, modules)
    )
    return sorted(set(constructs), key=lambda v: (v.file, v.line, v.construct))


def _own_names(trees: Mapping[str, ast.Module]) -> set[str]:
    """Every part of the modules' paths: which of them is the root of an import is for the driver to
    say."""
    return {part for path in trees for part in re.split(r"[/\\]", path.removesuffix(".py"))}


def module_of(requirement: str) -> str:
    """The name under which the package of a requirement is imported."""
    match = re.match(r"\s*([A-Za-z0-9._-]+)", requirement)
    name = re.sub(r"[-.]+", "_", match[1]) if match else ""
    return _IMPORTED_AS.get(name.lower(), name)


Located = ast.expr | ast.stmt


def _constructs(
    tree: ast.Module, modules: set[str] | frozenset[str]
) -> Iterator[tuple[Located, str]]:
    origins = _origins(tree)
    seeded = _seeded(tree, origins)
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                yield from (
                    (node, text) for a in names if (text := _import_problem(a.name, modules))
                )
            case ast.ImportFrom(module=str(module), names=names, level=0):
                construct = _import_problem(module, modules) or next(
                    (
                        f"import of {module}.{a.name}"
                        for a in names
                        if f"{module}.{a.name}" in _MODULES
                    ),
                    "",
                )
                if construct:
                    yield node, construct
            case ast.Name() | ast.Attribute() if node not in seeded:
                if construct := _use(node, origins):
                    yield node, construct
            case ast.Call() if node not in seeded:
                if construct := _call(node) or _clock_call(node, origins):
                    yield node, construct


def _seeded(tree: ast.Module, origins: Mapping[str, str]) -> set[ast.AST]:
    """Calls that depend on chance unless they are given a seed, and are; with the names that they
    call."""
    has_samples = not any(origin.startswith(_PANDAS_ON_SPARK) for origin in origins.values())
    calls: set[ast.AST] = set()
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        if libraries.is_seeded(_origin(node.func, origins), node):
            calls |= {node, *ast.walk(node.func)}
        elif has_samples and _is_seeded_sample(node):
            calls.add(node)
    return calls


def _is_seeded_sample(node: ast.Call) -> bool:
    """pandas' own; Spark has no such argument."""
    is_sample = isinstance(node.func, ast.Attribute) and node.func.attr == "sample"
    return is_sample and libraries.has_value(node, "random_state")


def _import_problem(module: str, modules: set[str] | frozenset[str]) -> str:
    parts = module.split(".")
    if parts[0] not in modules and parts[0].lower() not in {name.lower() for name in modules}:
        return f"import of {module}, which is not declared in `requirements:`"
    prefixes = {".".join(parts[: i + 1]) for i in range(len(parts))}
    return f"import of {module}" if prefixes & _MODULES else ""


def _origins(tree: ast.Module) -> dict[str, str]:
    """Local name -> the imported name; for `import *` the functions of Spark that matter here."""
    out: dict[str, str] = {}
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                for alias in names:
                    name = alias.name if alias.asname else alias.name.split(".")[0]
                    out[alias.asname or name] = name
            case ast.ImportFrom(module=str(module), names=names, level=0):
                for alias in names:
                    if alias.name == "*" and module.startswith("pyspark.sql"):
                        out |= {name: f"pyspark.sql.functions.{name}" for name in _SPARK_FUNCTIONS}
                    out[alias.asname or alias.name] = f"{module}.{alias.name}"
    return out


def _use(node: ast.Name | ast.Attribute, origins: Mapping[str, str]) -> str:
    origin = _origin(node, origins)
    parts = origin.split(".")
    if parts[0] == "pyspark" and "functions" in parts[:-1] and parts[-1] in _SPARK_FUNCTIONS:
        return f"{parts[-1]}()"
    for name in _ORIGINS:
        if origin == name or origin.startswith(name + "."):
            return name
    if reader := libraries.reader(origin):
        return reader
    if isinstance(node, ast.Attribute):
        if node.attr in _SESSION_READS and _is_session(node.value):
            return f"spark.{node.attr}"
        if node.attr in _EFFECTS:
            return f".{node.attr}"
        if node.attr in _CLOCK_METHODS and origin.rpartition(".")[0] in _CLOCK_CLASSES:
            return f".{node.attr}()"  # handed on, to be called by others
    return ""


def _origin(node: ast.expr, origins: Mapping[str, str]) -> str:
    """The dotted name that an expression stands for by its imports; empty if they do not determine
    it."""
    names: list[str] = []
    while isinstance(node, ast.Attribute):
        names.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name) or node.id not in origins:
        return ""
    return ".".join([origins[node.id], *reversed(names)])


def _is_session(node: ast.expr) -> bool:
    match node:
        case ast.Name(id=name):
            return name == "spark"
        case ast.Attribute(attr=name):
            return name in ("sparkSession", "spark")
        case ast.Call(func=ast.Attribute(attr=name)):
            return name in _SESSION_METHODS
        case _:
            return False


def _call(node: ast.Call) -> str:
    match node.func:
        case ast.Name(id=name):
            if name in _BUILTINS:
                return f"{name}()"
            return _in_sql(node) if name in _SQL_METHODS else ""
        case ast.Attribute(attr=name, value=receiver):
            return _method(name, receiver, node)
        case _:
            return ""


def _clock_call(node: ast.Call, origins: Mapping[str, str]) -> str:
    """The clock, where it depends on arguments."""
    name = _origin(node.func, origins).rpartition(".")[2] or getattr(node.func, "attr", "")
    if name == clock.SECONDS and not (node.args or node.keywords):
        return f"{name}()"
    texts = (
        a.value for a in node.args[:1] if isinstance(a, ast.Constant) and name in _CLOCK_READERS
    )
    return next((f"{name}({text!r})" for text in texts if text in _CLOCK_TEXTS), "")


def _method(name: str, receiver: ast.expr, node: ast.Call) -> str:
    if name in _CLOCK_METHODS or name in _CHANCE_METHODS:
        return f".{name}()"
    if name in _UNORDERED_METHODS and not _is_sorted(receiver):
        return f".{name}() without orderBy"
    if name in _KEEPING_METHODS and (node.args or node.keywords):
        return f".{name}() with columns"
    return _in_sql(node) if name in _SQL_METHODS else ""


def _is_sorted(receiver: ast.expr) -> bool:
    return (
        isinstance(receiver, ast.Call)
        and isinstance(receiver.func, ast.Attribute)
        and receiver.func.attr in _SORTING_METHODS
    )


def _in_sql(node: ast.Call) -> str:
    """A volatile function in a text that Spark will read as SQL."""
    texts = (a.value for a in node.args if isinstance(a, ast.Constant) and isinstance(a.value, str))
    return next((construct for text in texts if (construct := _sql_construct(text))), "")


def _sql_construct(text: str) -> str:
    try:
        lexemes = scan(text)
    except SqlProblem:
        return ""
    for at, x in enumerate(lexemes):
        name = x.token.name.lower()
        is_named = x.is_call or name.startswith("current_")
        if (is_named and name in _SPARK_FUNCTIONS) or clock.is_read(lexemes, at):
            return f"{name}() in SQL"
    return ""

"""The meaning of the blueprints of a folder while they are edited: problems, datasets, modes,
columns.

The validator is that of `headgate validate`. A document that cannot be read keeps its last meaning.
Does not belong here: the protocol of editors (`language_server`), and facts that only a service has
(`service_facts`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from controlplane.core.blueprint import file_references
from controlplane.core.compile.column_problems import DatasetColumns
from controlplane.core.compile.nodes import Desired, Node
from controlplane.core.errors import Problem
from controlplane.core.review.column_diff import as_ddl
from controlplane.operations.desired import blueprints, compile_edit
from controlplane.operations.desired.blueprints import SentBlueprint as Text
from controlplane.services.editor import outline

MOST_BYTES = 5_000_000
MOST_NEIGHBOURS = 100  # files of a folder that are looked at for other dataflows
_DATAFLOW = re.compile(r"^dataflow:[ \t]*([a-z][a-z0-9_]*)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Definition:
    """A place in a file; lines and columns count from 1."""

    path: Path
    line: int
    column: int


@dataclass(frozen=True, slots=True)
class Report:
    """Problems of one document and of the files that it names, by path; and the texts that places
    refer to."""

    problems: tuple[Problem, ...]
    notices: tuple[Problem, ...]
    texts: Mapping[str, str]


@dataclass(slots=True)
class Meaning:
    """The last meaning of a blueprint. `nodes`: of this dataflow and of those that it reads."""

    dataflow: str = ""
    nodes: dict[str, Node] = field(default_factory=dict)
    paths: dict[str, Path] = field(default_factory=dict)  # of dataflows
    columns: DatasetColumns = field(default_factory=lambda: DatasetColumns({}))

    def resolve(self, word: str, component: str) -> str:
        """The dataset that a name means within a component: an input's, one of this dataflow, or a
        full name. Empty where it is none; of `orders.price` it is that of `orders`."""
        node = self.nodes.get(f"{self.dataflow}.{component}")
        slots = {slot.name: slot.dataset for slot in node.slots} if node is not None else {}
        for name in (word, word.rpartition(".")[0]):
            for candidate in (slots.get(name, ""), f"{self.dataflow}.{name}", name):
                if candidate in self.nodes:
                    return candidate
        return ""

    def names(self) -> list[str]:
        """As this dataflow calls them: short names of its own datasets, full ones of others.
        Without copies."""
        datasets = [name for name, node in self.nodes.items() if node.has_rows]
        return [name.removeprefix(f"{self.dataflow}.") for name in datasets]

    def types(self, dataset: str) -> dict[str, str]:
        """Columns with their types, as far as the texts say; a type that is not known is empty."""
        node = self.nodes.get(dataset)
        if node is not None and node.declared is not None:
            return as_ddl(node.with_metadata(node.declared))
        names = self.columns.of(dataset) if node is not None else None
        return dict.fromkeys(names or (), "")


def is_blueprint(text: str) -> bool:
    """Whether a YAML document is one of ours: others are left alone."""
    return (
        bool(re.search(r"^dataflow *:", text, re.MULTILINE)) or "headgate" in text.split("\n", 1)[0]
    )


class Knowledge:
    """The meanings of all checked documents. `look` may run in another thread than lookups: a
    document's meaning is replaced whole."""

    def __init__(self) -> None:
        self._meant: dict[Path, Meaning] = {}

    def meaning(self, path: Path) -> Meaning:
        return self._meant.get(path, Meaning())

    def look(self, path: Path, text: str, opened: Mapping[Path, str]) -> Report:
        """Validate a document beside those that it refers to. `opened`: texts that editors have
        changed since they were read from disk."""
        own = _source(path, text)
        sources = [own, *_neighbours(own, opened)]
        attempt = compile_edit.compile_with_tests(sources)
        checked = blueprints.verdict(attempt)
        self._keep(path, text, sources, attempt.desired)
        files = {path.as_posix(): text} | {
            str(path.parent / name): body for name, body in own.files.items()
        }
        problems = tuple(_of(path, own, checked.problems))
        return Report(problems, tuple(_of(path, own, checked.notices)), files)

    def _keep(self, path: Path, text: str, sources: list[Text], desired: Desired) -> None:
        """New nodes over those before. A component that is still declared and does not compile now
        keeps its last meaning."""
        flow = _name(text)
        before = self.meaning(path)
        declared = outline.components(text)
        nodes = dict(desired.nodes)
        for name, node in before.nodes.items():
            if name.partition(".")[0] != flow or name.partition(".")[2] in declared:
                nodes.setdefault(name, node)
        if not flow:
            return
        paths = {name: Path(source.name) for source in sources if (name := _name(source.text))}
        self._meant[path] = Meaning(flow, nodes, before.paths | paths, DatasetColumns(nodes))

    def definition(self, path: Path, text: str, line: int, word: str) -> Definition | None:
        """Where the dataset is declared that a word means, or the Python file that it names."""
        if word.endswith(".py"):
            file = path.parent / word
            return Definition(file, 1, 1) if file.is_file() else None
        meant = self.meaning(path)
        dataset = meant.resolve(word, outline.component_at(text, line))
        flow, _, name = dataset.removesuffix("__quarantine").partition(".")
        if not dataset:
            return None
        place = meant.nodes[dataset].component.place
        if flow == meant.dataflow:  # the text may have moved since it was last understood
            return Definition(path, *outline.components(text).get(name, (place.line, place.column)))
        return Definition(meant.paths.get(flow, Path(place.file)), place.line, place.column)


def _source(path: Path, text: str) -> Text:
    files = {}
    for name in file_references(text):
        if (body := _read(path.parent / name)) is not None:
            files[name] = body
    return Text(path.as_posix(), text, files)


def _of(path: Path, own: Text, problems: Iterable[Problem]) -> Iterator[Problem]:
    """Those of a document and of its own files, whose places become absolute."""
    for problem in problems:
        if problem.file == own.name:
            yield problem
        elif problem.file in own.files:
            yield replace(problem, file=str(path.parent / problem.file))


def _neighbours(own: Text, opened: Mapping[Path, str]) -> list[Text]:
    """Blueprints beside a document whose dataflows it names, or those name. If two have one name,
    the first counts."""
    folder = Path(own.name).parent
    by_flow: dict[str, Text] = {}
    for path, text in sorted(_texts(folder, opened).items()):
        if path != Path(own.name) and (flow := _name(text)) and flow != _name(own.text):
            by_flow.setdefault(flow, _source(path, text))
    neighbours: list[Text] = []
    left = [own]
    while left:
        current = left.pop()
        named = [flow for flow in by_flow if re.search(rf"\b{flow}\.\w", current.text)]
        for flow in named:
            left.append(by_flow.pop(flow))
            neighbours.append(left[-1])
    return neighbours


def _texts(folder: Path, opened: Mapping[Path, str]) -> dict[Path, str]:
    try:
        paths = sorted([*folder.glob("*.yaml"), *folder.glob("*.yml")])[:MOST_NEIGHBOURS]
    except OSError:
        paths = []
    read = {
        path: text for path in paths if path not in opened and (text := _read(path)) is not None
    }
    return read | {path: text for path, text in opened.items() if path.parent == folder}


def _read(path: Path) -> str | None:
    """Text of a file; None where there is none, or more than a blueprint may have."""
    try:
        if not path.is_file() or path.stat().st_size > MOST_BYTES:
            return None
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None


def _name(text: str) -> str:
    match = _DATAFLOW.search(text)
    return match[1] if match else ""

"""`headgate lsp`: the language server on standard input and output, over pygls.

Validation runs in a thread of its own, and only problems of the newest text are published. Requests
are answered from the last validated texts.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

from lsprotocol import types
from pygls import uris
from pygls.lsp.server import LanguageServer

from controlplane.core.errors import Problem
from controlplane.core.model.answers import DatasetAnswer
from controlplane.services.editor import completion, hover, outline
from controlplane.services.editor.completion import Candidate
from controlplane.services.editor.knowledge import Knowledge, is_blueprint
from controlplane.services.editor.service_facts import Connect, Lookups
from controlplane.services.editor.text_ranges import end_of, lines_of, word_at

QUIET_S = 0.15  # after an edit, before the text is looked at
SERVICE_S = 1.0  # that a hover waits for a service at most
KINDS = {
    "key": types.CompletionItemKind.Property,
    "word": types.CompletionItemKind.EnumMember,
    "dataset": types.CompletionItemKind.Class,
    "column": types.CompletionItemKind.Field,
    "parameter": types.CompletionItemKind.Variable,
}


def serve(connect: Connect, branch: str) -> None:
    """Until the client ends it, or goes. `connect`: a service or home to ask about datasets, None
    where there is none."""
    Editor(connect, branch).server.start_io()


class Editor:
    """One client, with the documents that it has open."""

    def __init__(self, connect: Connect, branch: str) -> None:
        self.server = LanguageServer("headgate", f"v{version('headgate')}")
        self._knowledge, self._lookups = Knowledge(), Lookups(connect, branch)
        self._analysis_threads = ThreadPoolExecutor(1, "analysis")
        self._edits: dict[str, int] = {}  # how often a document changed, by its URI
        self._reported: dict[str, set[str]] = {}  # where its problems were reported
        triggers = types.CompletionOptions(trigger_characters=[".", ":", " "])
        self._answer(types.TEXT_DOCUMENT_DID_OPEN, self._opened)
        self._answer(types.TEXT_DOCUMENT_DID_CHANGE, self._changed)
        self._answer(types.TEXT_DOCUMENT_DID_SAVE, self._saved)
        self._answer(types.TEXT_DOCUMENT_DID_CLOSE, self._closed)
        self._answer(types.TEXT_DOCUMENT_HOVER, self._hover)
        self._answer(types.TEXT_DOCUMENT_DEFINITION, self._definition)
        self._answer(types.TEXT_DOCUMENT_COMPLETION, self._completion, triggers)

    def _answer(
        self,
        method: str,
        answer: Callable[..., Any],
        options: types.CompletionOptions | None = None,
    ) -> None:
        """Methods of objects take no attributes, which pygls sets on its handlers; partial
        functions do."""
        self.server.feature(method, options)(partial(answer))

    # problems
    async def _opened(self, params: types.DidOpenTextDocumentParams) -> None:
        await self._look(params.text_document.uri, 0.0)

    async def _changed(self, params: types.DidChangeTextDocumentParams) -> None:
        await self._look(params.text_document.uri, QUIET_S)

    async def _saved(self, params: types.DidSaveTextDocumentParams) -> None:
        self._lookups.forget()
        await self._look(params.text_document.uri, 0.0)

    def _closed(self, params: types.DidCloseTextDocumentParams) -> None:
        """Problems of a closed file are no longer reported."""
        uri = params.text_document.uri
        self._edits[uri] = self._edits.get(uri, 0) + 1
        for each in self._reported.pop(uri, set()):
            self._publish(each, [])

    async def _look(self, uri: str, quiet_s: float) -> None:
        """Validate a document after a pause. An outdated result is not published: the newest text
        is validated anyway."""
        edit = self._edits[uri] = self._edits.get(uri, 0) + 1
        await asyncio.sleep(quiet_s)
        if self._edits[uri] != edit:
            return
        document = self.server.workspace.get_text_document(uri)
        text, path = document.source, _path(uri)
        opened = {_path(u): d.source for u, d in self.server.workspace.text_documents.items()}
        if not is_blueprint(text):
            self._report(uri, {}, document.version)
            return
        loop = asyncio.get_running_loop()
        report = await loop.run_in_executor(
            self._analysis_threads, self._knowledge.look, path, text, opened
        )
        if self._edits[uri] != edit:
            return
        by_uri: dict[str, list[types.Diagnostic]] = {}
        for problems, severity in (
            (report.problems, types.DiagnosticSeverity.Error),
            (report.notices, types.DiagnosticSeverity.Warning),
        ):
            for problem in problems:
                target = (
                    uri
                    if problem.file == path.as_posix()
                    else uris.from_fs_path(problem.file) or uri
                )
                by_uri.setdefault(target, []).append(
                    self._diagnostic(problem, report.texts, severity)
                )
        self._report(uri, by_uri, document.version)

    def _report(
        self, uri: str, diagnostics: Mapping[str, list[types.Diagnostic]], of: int | None
    ) -> None:
        """Also that there are none any more."""
        for each in {uri, *diagnostics, *self._reported.get(uri, set())}:
            self._publish(each, diagnostics.get(each, []), of if each == uri else None)
        self._reported[uri] = {uri, *diagnostics}

    def _publish(
        self, uri: str, diagnostics: list[types.Diagnostic], of: int | None = None
    ) -> None:
        self.server.text_document_publish_diagnostics(
            types.PublishDiagnosticsParams(uri, diagnostics, of)
        )

    def _diagnostic(
        self, problem: Problem, texts: Mapping[str, str], severity: types.DiagnosticSeverity
    ) -> types.Diagnostic:
        text = texts.get(problem.file, "")
        hint = f" ({problem.hint})" if problem.hint else ""
        end = end_of(text, problem.line, problem.column)
        return types.Diagnostic(
            range=self._range(text, (problem.line, problem.column), end),
            message=f"{problem.message}{hint}",
            severity=severity,
            code=problem.code,
            source="headgate",
        )

    # questions
    async def _hover(self, params: types.HoverParams) -> types.Hover | None:
        text, path = self._text(params.text_document.uri)
        line, column = self._place(text, params.position)
        word, start = word_at(text, line, column)
        meant, component = self._knowledge.meaning(path), outline.component_at(text, line)
        dataset = meant.resolve(word, component) if word else ""
        if dataset:
            shown = hover.of_dataset(meant, dataset, component, await self._service_answer(dataset))
        else:
            at = outline.spot(text, line, start)
            properties = completion.schema_of(at.path, at.beside).get("properties", {})
            shown = (
                hover.of_key(word, properties[word]) if word in properties and not at.key else ""
            )
        if not shown:
            return None
        contents = types.MarkupContent(types.MarkupKind.Markdown, shown)
        return types.Hover(contents, self._range(text, (line, start), (line, start + len(word))))

    async def _service_answer(self, dataset: str) -> DatasetAnswer | None:
        """The service's answer if it comes soon, else the last one."""
        future = asyncio.wrap_future(self._lookups.ask(dataset))
        try:
            return await asyncio.wait_for(asyncio.shield(future), SERVICE_S)
        except TimeoutError:
            return self._lookups.latest(dataset)

    def _definition(self, params: types.DefinitionParams) -> types.Location | None:
        text, path = self._text(params.text_document.uri)
        line, column = self._place(text, params.position)
        word = _file_at(text, line, column) or word_at(text, line, column)[0]
        target = self._knowledge.definition(path, text, line, word)
        if target is None:
            return None
        place = (target.line, target.column)
        other = self._open_text(target.path)
        uri = (
            params.text_document.uri if target.path == path else uris.from_fs_path(str(target.path))
        )
        return types.Location(uri or "", self._range(other, place, end_of(other, *place)))

    def _completion(self, params: types.CompletionParams) -> list[types.CompletionItem]:
        text, path = self._text(params.text_document.uri)
        line, column = self._place(text, params.position)
        meant, component = self._knowledge.meaning(path), outline.component_at(text, line)
        if not is_blueprint(text) and text.strip():
            return []

        def columns(dataset: str) -> Mapping[str, str]:
            self._lookups.ask(dataset)  # for the next time
            return (
                hover.columns_of(meant, dataset, self._lookups.latest(dataset))
                if dataset in meant.nodes
                else {}
            )

        query = _component_text(text, component)
        candidates = completion.candidates(
            meant, outline.spot(text, line, column), component, query, columns
        )
        return [self._item(text, (line, column), each) for each in candidates]

    def _item(
        self, text: str, place: tuple[int, int], candidate: Candidate
    ) -> types.CompletionItem:
        line, column = place
        where = self._range(text, (line, column - candidate.replaces), place)
        edit = types.TextEdit(where, candidate.insert or candidate.label)
        return types.CompletionItem(
            candidate.label, kind=KINDS[candidate.kind], detail=candidate.detail, text_edit=edit
        )

    # places: ours count characters from 1, the client's count units of its encoding from 0
    def _text(self, uri: str) -> tuple[str, Path]:
        return self.server.workspace.get_text_document(uri).source, _path(uri)

    def _open_text(self, path: Path) -> str:
        uri = uris.from_fs_path(str(path))
        return "" if uri is None else self.server.workspace.get_text_document(uri).source

    def _place(self, text: str, position: types.Position) -> tuple[int, int]:
        converted = self.server.workspace.position_codec.position_from_client_units(
            lines_of(text), position
        )
        return converted.line + 1, converted.character + 1

    def _range(self, text: str, start: tuple[int, int], end: tuple[int, int]) -> types.Range:
        return types.Range(*(self._position(text, place) for place in (start, end)))

    def _position(self, text: str, place: tuple[int, int]) -> types.Position:
        """The position of a problem; the beginning for one without a place."""
        line, column = max(place[0] - 1, 0), max(place[1] - 1, 0)
        lines = lines_of(text)
        if line >= len(lines):
            return types.Position(line, column)
        return types.Position(
            line, self.server.workspace.position_codec.client_num_units(lines[line][:column])
        )


def _path(uri: str) -> Path:
    """The path of a document; one in the working folder for a document that is in no file yet."""
    path = uris.to_fs_path(uri)
    return Path(path) if path else Path("untitled.yaml").absolute()


def _file_at(text: str, line: int, column: int) -> str:
    """The path of a Python file that a place is within."""

    lines = lines_of(text)
    for match in re.finditer(r"[\w./-]+\.py\b", lines[line - 1] if line <= len(lines) else ""):
        if match.start() < column <= match.end() + 1:
            return match[0]
    return ""


def _component_text(text: str, component: str) -> str:
    """The lines of a component."""
    places = sorted(line for line, _ in outline.components(text).values())
    start = outline.components(text).get(component, (1, 1))[0]
    end = next((line for line in places if line > start), len(lines_of(text)) + 1)
    return "\n".join(lines_of(text)[start - 1 : end - 1])

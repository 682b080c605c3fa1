"""The server itself: the protocol on one side, the document and what is known of it on the other.

A keystroke reads the touched statements again and tells at once what is wrong with them; what the
statements say together is looked at when the typing pauses, and the analyses of queries run in
threads, when a hover or a lens asks for them.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from lsprotocol import types
from pygls.exceptions import JsonRpcInvalidParams
from pygls.lsp.server import LanguageServer
from pygls.protocol import LanguageServerProtocol, lsp_method

import tidelog
from tidelog.language.checks import Similar
from tidelog.language.diagnostics import Code, Diagnostic, ProgramError, Severity
from tidelog.language.formatter import format_source
from tidelog.language.printer import print_literal
from tidelog.language.program import Clock, Input, Origin, Outputs, Rule, TickLength
from tidelog.lsp import colours, facts
from tidelog.lsp.completion import Sort, completions
from tidelog.lsp.document import Document
from tidelog.lsp.fixes import fixes
from tidelog.lsp.hover import hover
from tidelog.lsp.names import (
    CannotRename,
    Spot,
    definitions,
    first_definitions,
    is_definition,
    references,
    renamable,
    renamed,
    spot_at,
)
from tidelog.lsp.positions import TextLines, Units

log = logging.getLogger("tidelog.lsp")

# Findings of a file that are sent; an editor shows no more of them at a time.
MOST_FINDINGS = 250
# Seconds without a keystroke after which the statements are looked at together.
PAUSE = 0.15
# If that took no longer than this, it is done at every keystroke.
AT_ONCE = 0.01

_EDITOR_SEVERITIES = {
    Severity.ERROR: types.DiagnosticSeverity.Error,
    Severity.WARNING: types.DiagnosticSeverity.Warning,
    Severity.NOTE: types.DiagnosticSeverity.Information,
}
_KINDS = {
    Sort.PREDICATE: types.CompletionItemKind.Class,
    Sort.COLUMN: types.CompletionItemKind.Field,
    Sort.VARIABLE: types.CompletionItemKind.Variable,
    Sort.CONSTANT: types.CompletionItemKind.EnumMember,
    Sort.KEYWORD: types.CompletionItemKind.Keyword,
    Sort.TYPE: types.CompletionItemKind.TypeParameter,
}


@dataclass
class Opened:
    """A document that an editor has open, and what was last found out about it."""

    document: Document
    common: tuple[Diagnostic, ...] = ()
    told: list[Diagnostic] = field(default_factory=list)
    seconds: float = 0.0  # that looking at all statements together took
    looked_at: tuple[int, ...] = ()  # the statements that `common` is about, by identity
    held: Document | None = None  # so that no identity is used twice
    waiting: asyncio.TimerHandle | None = None
    colours: tuple[str, list[int]] | None = None


class Protocol(LanguageServerProtocol):
    """pygls keeps texts of its own, by Python's idea of lines; ours are by the protocol's."""

    _server: Server

    @lsp_method(types.TEXT_DOCUMENT_DID_OPEN)
    def lsp_text_document__did_open(self, params: types.DidOpenTextDocumentParams) -> None:
        self._server.opened(params)

    @lsp_method(types.TEXT_DOCUMENT_DID_CHANGE)
    def lsp_text_document__did_change(self, params: types.DidChangeTextDocumentParams) -> None:
        self._server.edited(params)

    @lsp_method(types.TEXT_DOCUMENT_DID_CLOSE)
    def lsp_text_document__did_close(self, params: types.DidCloseTextDocumentParams) -> None:
        self._server.closed(params)


class Server(LanguageServer):
    """One editor's server."""

    def __init__(self) -> None:
        super().__init__(
            "tidelog",
            tidelog.__version__,
            text_document_sync_kind=types.TextDocumentSyncKind.Incremental,
            protocol_cls=Protocol,
            max_workers=4,
        )
        self.open: dict[str, Opened] = {}
        self.analyses = facts.Analyses()

    @property
    def units(self) -> Units:
        encoding = self.server_capabilities.position_encoding
        return Units(encoding) if encoding in set(Units) else Units.UTF16

    def report_server_error(self, error: Exception, source: Any) -> None:
        """What goes wrong here goes to the log; an editor is not the place for it."""
        log.error("%s", error, exc_info=error)

    # Texts

    def opened(self, params: types.DidOpenTextDocumentParams) -> None:
        item = params.text_document
        document = Document.of(item.uri, item.text, self.units, item.version)
        self.open[item.uri] = Opened(document)
        self.look_together(item.uri)
        # A name that is not known is compared with all others: what that takes is made here, too.
        Similar(document.program.predicates).to("")
        # What is made now lives until the file is closed. The collector leaves it alone from here
        # on: going through it would take longer than a keystroke may. It is freed all the same
        # when nothing refers to it any more.
        gc.collect()
        gc.freeze()

    def edited(self, params: types.DidChangeTextDocumentParams) -> None:
        state = self.open.get(params.text_document.uri)
        if state is None:
            return
        raw = state.document.raw
        for change in params.content_changes:
            if isinstance(change, types.TextDocumentContentChangePartial):
                start, end = change.range.start, change.range.end
                raw = TextLines(raw, self.units).replaced(
                    (start.line, start.character), (end.line, end.character), change.text
                )
            else:
                raw = change.text
        state.document = state.document.changed(raw, params.text_document.version)
        if state.waiting is not None:
            state.waiting.cancel()
            state.waiting = None
        if state.seconds <= AT_ONCE:
            self.look_together(state.document.uri)
            return
        self.tell(state)
        loop = asyncio.get_running_loop()
        state.waiting = loop.call_later(PAUSE, self.look_together, state.document.uri)

    def closed(self, params: types.DidCloseTextDocumentParams) -> None:
        state = self.open.pop(params.text_document.uri, None)
        if state is not None and state.waiting is not None:
            state.waiting.cancel()
        self.publish(params.text_document.uri, None, [])

    def look_together(self, uri: str) -> None:
        """Find what is wrong with the statements together, and tell everything."""
        state = self.open.get(uri)
        if state is None:
            return
        state.waiting = None
        document = state.document
        looked_at = (document.complete, *map(id, document.program.statements))
        if looked_at != state.looked_at:  # while a statement is being written, the others stay
            started = time.process_time()
            state.common = document.common_findings()
            state.seconds = time.process_time() - started
            state.looked_at, state.held = looked_at, document
        self.tell(state)

    def tell(self, state: Opened) -> None:
        state.told = state.document.findings(state.common, MOST_FINDINGS)
        shown = [diagnostic(state.document, d) for d in state.told]
        self.publish(state.document.uri, state.document.version, shown)

    def publish(self, uri: str, version: int | None, diagnostics: list[types.Diagnostic]) -> None:
        self.text_document_publish_diagnostics(
            types.PublishDiagnosticsParams(uri=uri, version=version, diagnostics=diagnostics)
        )

    # Questions

    def document(self, place: types.TextDocumentIdentifier) -> Document | None:
        state = self.open.get(place.uri)
        return None if state is None else state.document

    def spot(self, params: Any) -> tuple[Document, Spot] | None:
        """The word that a request is about."""
        document = self.document(params.text_document)
        if document is None:
            return None
        at = document.offset(params.position.line, params.position.character)
        spot = spot_at(document, at)
        return None if spot is None else (document, spot)


# From our places to the protocol's


def position(place: tuple[int, int]) -> types.Position:
    return types.Position(*place)


def stretch(document: Document, start: int, end: int) -> types.Range:
    return types.Range(position(document.position(start)), position(document.position(end)))


def range_of(document: Document, origin: Origin) -> types.Range:
    """An origin, which may end one character after its line, within the text."""
    return types.Range(
        position(document.point(origin.line, origin.column)),
        position(document.point(origin.end_line, origin.end_column)),
    )


def location(document: Document, spot: Spot) -> types.Location:
    return types.Location(document.uri, stretch(document, spot.start, spot.end))


def diagnostic(document: Document, finding: Diagnostic) -> types.Diagnostic:
    unnecessary = finding.code in (Code.UNUSED_INPUT, Code.DUPLICATE_RULE)
    hint = f"\nhint: {finding.hint}" if finding.hint else ""
    return types.Diagnostic(
        range=range_of(document, finding.origin),
        message=finding.message + hint,
        severity=_EDITOR_SEVERITIES[finding.severity],
        code=finding.code.id,
        source="tidelog",
        tags=[types.DiagnosticTag.Unnecessary] if unnecessary else None,
        related_information=[
            types.DiagnosticRelatedInformation(
                types.Location(document.uri, range_of(document, note.origin)), note.message
            )
            for note in finding.notes
            if note.origin is not None
        ],
    )


P = ParamSpec("P")
R = TypeVar("R")


def safe(answer: Callable[P, R]) -> Callable[P, R | None]:
    """Nothing, and a line in the log, where an answer fails: an editor must go on working."""

    @wraps(answer)
    def guarded(*args: P.args, **kwargs: P.kwargs) -> R | None:
        try:
            return answer(*args, **kwargs)
        except JsonRpcInvalidParams:
            raise
        except Exception:
            log.exception("%s failed", answer.__name__)
            return None

    return guarded


def make_server() -> Server:
    """A server with everything it can do."""
    gc.set_threshold(100_000, 50, 100)  # programs are large and live long: look at them rarely
    server = Server()
    _names(server)
    _texts(server)
    _hints(server)
    _shown(server)
    _coloured(server)
    return server


def _names(server: Server) -> None:
    """Going to definitions and uses, and renaming."""

    @server.feature(types.TEXT_DOCUMENT_DEFINITION)
    @safe
    def definition(params: types.DefinitionParams) -> list[types.Location]:
        at = server.spot(params)
        return [location(at[0], s) for s in definitions(*at)] if at else []

    @server.feature(types.TEXT_DOCUMENT_REFERENCES)
    @safe
    def uses(params: types.ReferenceParams) -> list[types.Location]:
        at = server.spot(params)
        everything = references(*at) if at else []
        wanted = params.context.include_declaration
        return [
            location(at[0], s) for s in everything if at and (wanted or not is_definition(s.word))
        ]

    @server.feature(types.TEXT_DOCUMENT_DOCUMENT_HIGHLIGHT)
    @safe
    def highlight(params: types.DocumentHighlightParams) -> list[types.DocumentHighlight]:
        at = server.spot(params)
        return [
            types.DocumentHighlight(stretch(at[0], s.start, s.end))
            for s in (references(*at) if at else [])
            if at
        ]

    @server.feature(types.TEXT_DOCUMENT_PREPARE_RENAME)
    @safe
    def prepare(params: types.PrepareRenameParams) -> types.Range | None:
        at = server.spot(params)
        try:
            spot = renamable(at[1] if at else None)
        except CannotRename as error:
            raise JsonRpcInvalidParams(str(error)) from None
        return stretch(at[0], spot.start, spot.end) if at else None

    @server.feature(types.TEXT_DOCUMENT_RENAME, types.RenameOptions(prepare_provider=True))
    @safe
    def rename(params: types.RenameParams) -> types.WorkspaceEdit | None:
        at = server.spot(params)
        document = server.document(params.text_document)
        if document is None:
            return None
        try:
            places = renamed(document, at[1] if at else None, params.new_name)
        except CannotRename as error:
            raise JsonRpcInvalidParams(str(error)) from None
        edits = [types.TextEdit(stretch(document, s.start, s.end), params.new_name) for s in places]
        return types.WorkspaceEdit(changes={document.uri: edits})


def _texts(server: Server) -> None:
    """Completing and formatting."""

    @server.feature(
        types.TEXT_DOCUMENT_COMPLETION,
        types.CompletionOptions(trigger_characters=["(", ",", "@", ":", " "]),
    )
    @safe
    def complete(params: types.CompletionParams) -> types.CompletionList | None:
        document = server.document(params.text_document)
        if document is None:
            return None
        at = document.offset(params.position.line, params.position.character)
        suggested = completions(document, at)
        place = stretch(document, suggested.start, at)
        snippets = _snippets(server)
        items = [
            types.CompletionItem(
                label=s.label,
                kind=_KINDS[s.sort],
                detail=s.detail or None,
                sort_text=f"{i:05d}",
                insert_text_format=types.InsertTextFormat.Snippet
                if snippets
                else types.InsertTextFormat.PlainText,
                text_edit=types.TextEdit(place, s.insert if snippets else s.label),
            )
            for i, s in enumerate(suggested.words)
        ]
        return types.CompletionList(is_incomplete=not suggested.whole, items=items)

    @server.feature(types.TEXT_DOCUMENT_FORMATTING)
    @safe
    def format_(params: types.DocumentFormattingParams) -> list[types.TextEdit]:
        document = server.document(params.text_document)
        if document is None:
            return []
        try:
            text = format_source(document.source)
        except ProgramError:
            return []  # what is wrong with it is told already
        if text == document.text:
            return []
        return [types.TextEdit(stretch(document, 0, len(document.text)), text)]


def _hints(server: Server) -> None:
    """Following the hints of diagnostics."""

    @server.feature(
        types.TEXT_DOCUMENT_CODE_ACTION,
        types.CodeActionOptions(code_action_kinds=[types.CodeActionKind.QuickFix]),
    )
    @safe
    def actions(params: types.CodeActionParams) -> list[types.CodeAction]:
        state = server.open.get(params.text_document.uri)
        if state is None:
            return []
        document = state.document
        first, last = params.range.start.line + 1, params.range.end.line + 1
        here = [d for d in state.told if d.origin.line <= last and d.origin.end_line >= first]
        return [
            types.CodeAction(
                title=fix.title,
                kind=types.CodeActionKind.QuickFix,
                diagnostics=[diagnostic(document, each)],
                is_preferred=fix.preferred,
                edit=types.WorkspaceEdit(
                    changes={
                        document.uri: [
                            types.TextEdit(stretch(document, fix.start, fix.end), fix.text)
                        ]
                    }
                ),
            )
            for each in here
            for fix in fixes(document, each)
        ]


def _snippets(server: Server) -> bool:
    text = server.client_capabilities.text_document
    completion = text.completion if text else None
    item = completion.completion_item if completion else None
    return bool(item and item.snippet_support)


def _shown(server: Server) -> None:
    """Hovers, lenses and symbols."""

    @server.feature(types.TEXT_DOCUMENT_HOVER)
    async def hovered(params: types.HoverParams) -> types.Hover | None:
        at = server.spot(params)
        if at is None:
            return None
        document, spot = at
        text = await _in_thread(server, safe(hover), document, spot, server.analyses)
        if text is None:
            return None
        content = types.MarkupContent(types.MarkupKind.Markdown, text)
        return types.Hover(content, stretch(document, spot.start, spot.end))

    @server.feature(types.TEXT_DOCUMENT_CODE_LENS, types.CodeLensOptions(resolve_provider=True))
    @safe
    def lenses(params: types.CodeLensParams) -> list[types.CodeLens]:
        document = server.document(params.text_document)
        if document is None:
            return []
        outputs = document.outputs & document.program.heads_of.keys()
        return [
            types.CodeLens(
                stretch(document, spot.start, spot.end), data={"uri": document.uri, "query": name}
            )
            for name, spot in first_definitions(document, outputs)
        ]

    @server.feature(types.CODE_LENS_RESOLVE)
    async def lens(params: types.CodeLens) -> types.CodeLens:
        data = params.data if isinstance(params.data, dict) else {}
        state, query = server.open.get(data.get("uri", "")), data.get("query")
        title = "not known any more"
        if state is not None and query in state.document.program.heads_of:
            document = state.document
            analysis = await _in_thread(server, safe(server.analyses.of), document, query)
            title = "not known" if analysis is None else facts.summary(analysis)
            title = facts.in_file(title, document)
        params.command = types.Command(title, "")
        return params

    @server.feature(types.TEXT_DOCUMENT_DOCUMENT_SYMBOL)
    @safe
    def symbols(params: types.DocumentSymbolParams) -> list[types.DocumentSymbol]:
        document = server.document(params.text_document)
        return [] if document is None else list(_symbols(document))


def _coloured(server: Server) -> None:
    """Semantic tokens: all of them, what has changed of them, or those of some lines."""
    legend = types.SemanticTokensLegend(list(colours.TYPES), list(colours.MODIFIERS))

    @server.feature(
        types.TEXT_DOCUMENT_SEMANTIC_TOKENS_FULL,
        types.SemanticTokensRegistrationOptions(
            legend=legend, full=types.SemanticTokensFullDelta(delta=True), range=True
        ),
    )
    @safe
    def all_colours(params: types.SemanticTokensParams) -> types.SemanticTokens | None:
        state = server.open.get(params.text_document.uri)
        if state is None:
            return None
        data = colours.semantic_tokens(state.document)
        state.colours = (str(id(data)), data)
        return types.SemanticTokens(data, state.colours[0])

    @server.feature(types.TEXT_DOCUMENT_SEMANTIC_TOKENS_FULL_DELTA)
    @safe
    def other_colours(
        params: types.SemanticTokensDeltaParams,
    ) -> types.SemanticTokens | types.SemanticTokensDelta | None:
        state = server.open.get(params.text_document.uri)
        if state is None:
            return None
        data, before = colours.semantic_tokens(state.document), state.colours
        state.colours = (str(id(data)), data)
        if before is None or before[0] != params.previous_result_id:
            return types.SemanticTokens(data, state.colours[0])
        start, gone, new = colours.edited(before[1], data)
        edits = [types.SemanticTokensEdit(start, gone, new)] if gone or new else []
        return types.SemanticTokensDelta(edits, state.colours[0])

    @server.feature(types.TEXT_DOCUMENT_SEMANTIC_TOKENS_RANGE)
    @safe
    def some_colours(params: types.SemanticTokensRangeParams) -> types.SemanticTokens | None:
        document = server.document(params.text_document)
        if document is None:
            return None
        first, last = params.range.start.line, params.range.end.line
        return types.SemanticTokens(colours.semantic_tokens(document, first, last))


async def _in_thread(server: Server, work: Callable[..., R], *args: object) -> R:
    loop = asyncio.get_running_loop()
    return await loop.run_in_executor(server.thread_pool, work, *args)


def _symbols(document: Document) -> list[types.DocumentSymbol]:
    symbols: list[types.DocumentSymbol] = []
    for chunk in document.chunks:
        for statement in chunk.statements:
            match statement:
                case Input():
                    name, kind = f"input {statement.predicate}", types.SymbolKind.Interface
                case Clock():
                    name, kind = f"clock {statement.predicate}", types.SymbolKind.Interface
                case TickLength():
                    name, kind = f"tick {statement.length}", types.SymbolKind.Interface
                case Outputs():
                    names = ", ".join(item.predicate for item in statement.items)
                    name, kind = f"output {names}", types.SymbolKind.Event
                case Rule():
                    name = print_literal(statement.head)
                    kind = types.SymbolKind.Class if statement.body else types.SymbolKind.Constant
            place = range_of(document, document.absolute(statement.origin))
            symbols.append(types.DocumentSymbol(name, kind, place, place))
    return symbols

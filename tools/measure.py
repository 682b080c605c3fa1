"""Measures of the source, which a ratchet holds.

`python tools/measure.py` prints them; `--json` for programs, `--names` with the ambiguous names,
`--write` into the ratchet.
Numbers may fall. One that rises fails a test until `tools/ratchet.json` says so.
"""

from __future__ import annotations

import ast
import io
import json
import re
import sys
import tokenize
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "tidelog"
RATCHET = ROOT / "tools" / "ratchet.json"
STREAM = ROOT / "examples" / "heartbeats" / "rules.tdl"
_NO_CODE = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
    tokenize.ENCODING,
}


def files() -> list[Path]:
    return sorted(SOURCE.rglob("*.py"))


def code_lines(text: str) -> int:
    """Lines with code: docstrings, comments and imports are free.

    >>> code_lines("import os\\n\\ndef f():\\n    'What it is.'\\n    return 1  # so\\n")
    2
    """
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in _NO_CODE:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import | ast.ImportFrom) or _is_docstring(node):
            assert isinstance(node, ast.stmt)
            lines.difference_update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return len(lines)


def _is_docstring(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


def names() -> dict[str, list[str]]:
    """Names of classes, modules and constants, each with the places that define it."""
    places: dict[str, list[str]] = {}
    for path in files():
        where = str(path.relative_to(SOURCE))
        if path.stem not in ("__init__", "__main__"):
            places.setdefault(f"module {path.stem}", []).append(where)
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            for name in _defined(node):
                places.setdefault(name, []).append(where)
    return places


def _defined(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.ClassDef):
        yield f"class {node.name}"
    if isinstance(node, ast.Module):
        for statement in node.body:
            targets: list[ast.expr] = []
            if isinstance(statement, ast.Assign):
                targets = statement.targets
            elif isinstance(statement, ast.AnnAssign):
                targets = [statement.target]
            for target in targets:
                if isinstance(target, ast.Name) and re.fullmatch(r"_?[A-Z][A-Z0-9_]+", target.id):
                    yield f"constant {target.id.lstrip('_')}"


def ambiguous_names() -> list[str]:
    """Names that are defined in several places."""
    return sorted(name for name, where in names().items() if len(where) > 1)


def objects_made(classes: list[type], action: Callable[[], object]) -> dict[str, int]:
    """How many objects of some classes an action makes."""
    counts: Counter[str] = Counter()
    inits: dict[type, Any] = {}
    for class_ in classes:
        inits[class_] = class_.__init__

        def counted(self: Any, *args: Any, _class: type = class_, **named: Any) -> None:
            counts[_class.__name__] += 1
            inits[_class](self, *args, **named)

        class_.__init__ = counted  # type: ignore[misc]
    try:
        action()
    finally:
        for class_, init in inits.items():
            class_.__init__ = init  # type: ignore[misc]
    return {class_.__name__: counts[class_.__name__] for class_ in classes}


def stream_objects() -> dict[str, int]:
    """How many forms of the program a stream makes to start, if this process made none before."""
    import tidelog
    from tidelog.analysis.dependencies import Dependencies
    from tidelog.logic.core import Core

    program = tidelog.load(STREAM)

    def start() -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tidelog.Stream(program)

    return objects_made([Core, Dependencies], start)


def measures() -> dict[str, int]:
    made = stream_objects()
    return {
        "source files": len(files()),
        "lines of code": sum(code_lines(path.read_text("utf-8")) for path in files()),
        "ambiguous names": len(ambiguous_names()),
        "Core objects of a stream": made["Core"],
        "Dependencies objects of a stream": made["Dependencies"],
    }


def main() -> None:
    measured = measures()
    if "--json" in sys.argv:
        print(json.dumps(measured))
        return
    if "--write" in sys.argv:
        RATCHET.write_text(json.dumps(measured, indent=2) + "\n")
    held = json.loads(RATCHET.read_text("utf-8")) if RATCHET.exists() else {}
    for name, value in measured.items():
        print(f"{name:34} {value:8,} {held.get(name, 0):8,}")
    if "--names" in sys.argv:
        print(*ambiguous_names(), sep="\n")


if __name__ == "__main__":
    main()

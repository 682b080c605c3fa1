"""`%%tidelog` and `%tidelog` for IPython: rules in a cell, questions in a line.

`%load_ext tidelog` brings them. A cell that begins with `%%tidelog NAME` holds rules; if they are
right, the program is in NAME (`program` if there is none), else everything that is wrong with them
is shown. A line asks the program of the last cell, or `--program NAME`:

    %tidelog Malfunc facts              the answers of a query, facts being a variable or a path
    %tidelog why "Malfunc(a) @ 0" facts     a proof, or what comes nearest
    %tidelog analyze Malfunc            class, delay, window, state
    %tidelog test rules.test.yaml       the tests of a file or folder
"""

from __future__ import annotations

import shlex
from typing import Any

from IPython.core.error import UsageError
from IPython.core.magic import Magics, line_cell_magic, magics_class

from tidelog import Program, ProgramError, analyze, check
from tidelog.errors import DataError, NoAnswer
from tidelog.language.diagnostics import render

_USAGE = (
    "%tidelog QUERY [FACTS], %tidelog why FACT [FACTS], %tidelog analyze QUERY or"
    " %tidelog test PATH; rules go below %%tidelog [NAME]"
)


@magics_class
class TidelogMagics(Magics):
    """The program of the last cell, and questions to it."""

    last = "program"

    @line_cell_magic
    def tidelog(self, line: str, cell: str | None = None) -> Any:
        """Rules in a cell, or a question in a line; `%load_ext tidelog` tells more."""
        try:
            words = shlex.split(line)
        except ValueError as error:
            raise UsageError(f"{error}: {_USAGE}") from None
        if cell is not None:
            self._define(words, cell)
            return None
        try:
            return self._ask(words)
        except ProgramError as error:
            raise UsageError(str(error)) from None
        except (ValueError, OSError, DataError, NoAnswer) as error:
            raise UsageError(str(error)) from None

    @property
    def _names(self) -> dict[str, Any]:
        """The variables of the notebook."""
        assert self.shell is not None
        names: dict[str, Any] = self.shell.user_ns
        return names

    def _define(self, words: list[str], cell: str) -> None:
        if len(words) > 1 or not all(word.isidentifier() for word in words):
            raise UsageError(f"the line names a variable for the program: {_USAGE}")
        name = words[0] if words else "program"
        report = check(cell, f"<{name}>")
        for diagnostic in report.diagnostics:
            print(render(diagnostic, report.source), end="\n\n")
        if report.errors:
            return
        self._names[name] = Program(report.program.statements)
        TidelogMagics.last = name

    def _ask(self, words: list[str]) -> Any:
        name = self.last
        if "--program" in words[:-1]:
            at = words.index("--program")
            name = words[at + 1]
            del words[at : at + 2]
        match words:
            case ["test", *paths]:
                from tidelog import testing

                print(testing.run(paths or ["."]))
                return None
            case ["why", fact, *facts] if len(facts) <= 1:
                return self._program(name).why(fact, self._facts(facts))
            case ["analyze", query]:
                return analyze(self._program(name), query)
            case [query, *facts] if len(facts) <= 1:
                return self._program(name).query(query, self._facts(facts)).to_pandas()
        raise UsageError(_USAGE)

    def _program(self, name: str) -> Program:
        program = self._names.get(name)
        if not isinstance(program, Program):
            raise UsageError(f"there is no program in `{name}`: write one below %%tidelog {name}")
        return program

    def _facts(self, words: list[str]) -> Any:
        """A variable of the notebook, or else a path."""
        if not words:
            return None
        return self._names.get(words[0], words[0])


def load(ipython: Any) -> None:
    """What `%load_ext tidelog` calls."""
    ipython.register_magics(TidelogMagics)

"""The command line.

Exit codes are in `tidelog.causes`: 0 for any answer, warnings included; 1 when the rules or the
data are wrong (and when `fmt --check` found work); 2 when the command was used wrongly; 75 when the
same command may do it later.
"""

from __future__ import annotations

import io
import os
import sys
import traceback
from copy import copy

try:
    import click

    from tidelog import __version__
    from tidelog.causes import Exit, cause_of
    from tidelog.cli import analyses, checkpoint, lsp, query, report, rules, run, test, why
    from tidelog.cli.help import with_help
    from tidelog.evaluation.interrupts import as_keyboard_interrupt
except KeyboardInterrupt:  # Ctrl-C while the command starts
    print("Aborted!", file=sys.stderr)
    sys.exit(1)


class _Commands(click.Group):
    """The commands; Ctrl-C ends each of them with `Aborted!`, whatever it is doing."""

    def invoke(self, ctx: click.Context) -> object:
        with as_keyboard_interrupt():
            return super().invoke(ctx)


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="tidelog")
def cli() -> None:
    """Stream reasoning in temporal Datalog.

    RULES is a .tdl file, or - for standard input.
    """


for command in (
    rules.check_command,
    rules.fmt_command,
    rules.explain_command,
    test.test_command,
    query.query_command,
    run.run_command,
    checkpoint.checkpoint_command,
    why.why_command,
    report.report_command,
    analyses.analyze_command,
    analyses.delay_command,
    analyses.window_command,
    analyses.definitive_command,
    analyses.forgettable_command,
    analyses.contained_command,
    lsp.lsp_command,
):
    cli.add_command(with_help(command))
# The other spelling works too, without a line of its own in the help.
_spelt = copy(analyses.analyze_command)
_spelt.hidden = True
cli.add_command(_spelt, "analyse")


def main() -> None:
    _standard_streams()
    try:
        try:
            cli()
        finally:
            sys.stdout.flush()
    except KeyboardInterrupt:  # after the command, while its output is written
        print("Aborted!", file=sys.stderr)
        sys.exit(1)
    except OSError as error:  # what the commands cannot know of, such as a full disk
        with open(os.devnull, "wb") as nowhere:  # or the same error would follow at the very end
            os.dup2(nowhere.fileno(), sys.stdout.fileno())
        if not isinstance(error, BrokenPipeError):
            print(f"Error: {_failed(error)}", file=sys.stderr)
        sys.exit(Exit.USAGE if cause_of(error) is None else Exit.RETRY)


# Where what goes to standard output is written.
_PRINTING = ("click/utils.py", "rich/console.py", "cli/__init__.py", "sinks/console.py")


def _failed(error: OSError) -> str:
    """What the operating system would not do, and where that was asked for."""
    said = error.strerror or str(error)
    if error.filename is not None:
        return f"cannot use {error.filename}: {said}"
    asked = traceback.extract_tb(error.__traceback__)[-1]
    place = asked.filename.replace(os.sep, "/")
    if place.endswith(_PRINTING) or "stdout" in (asked.line or ""):
        return f"cannot write to standard output: {said}"
    module = "/".join(place.split("/")[-2:])
    return f"the operating system says: {said} (asked by {module}, line {asked.lineno})"


def _standard_streams() -> None:
    # A stream that was closed (`>&-`) is as good as empty.
    if sys.stdin is None:
        sys.stdin = open(os.devnull, encoding="utf-8")  # noqa: SIM115
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
    # What a terminal cannot show is shown escaped, never a reason to fail.
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")

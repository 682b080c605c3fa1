"""`tidelog checkpoint`: look at a checkpoint, see whether it is whole, go back, take things out."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from typing import Any

import click

from tidelog.cli.common import data_errors, json_option, print_json
from tidelog.data.secrets import without_secrets
from tidelog.views import terminal

_sink_option = click.option(
    "--sink", metavar="SINK", help="Where the answers are, if not where `run` put them: csv:DIR."
)


@click.group("checkpoint")
def checkpoint_command() -> None:
    """Look at the checkpoint of a stream, on Spark or in process, without Spark.

    DIR is the folder that `tidelog run --checkpoint DIR` names, on this machine.
    """


def _print(lines: Iterable[str]) -> None:
    console = terminal.stdout()
    for line in lines:
        console.print(without_secrets(line))


@checkpoint_command.command("show")
@click.argument("folder", metavar="DIR")
@click.option(
    "--commits",
    type=click.IntRange(min=1),
    default=5,
    show_default=True,
    metavar="N",
    help="How many of the last commits.",
)
@json_option
def show_command(folder: str, commits: int, as_json: bool) -> None:
    """Say what DIR is the checkpoint of, how far the stream is, and what it keeps."""
    from tidelog.checkpoints.checkpoint import Checkpoint
    from tidelog.views.checkpoints import show_lines

    with data_errors():
        shown = Checkpoint(folder).show(commits)
        print_json(shown.as_json()) if as_json else _print(show_lines(shown))


@checkpoint_command.command("verify")
@click.argument("folder", metavar="DIR")
@_sink_option
@json_option
def verify_command(folder: str, sink: str | None, as_json: bool) -> None:
    """Say what is missing or damaged of all that the commits in DIR refer to; then exit with 1.

    State, rigid facts, dead letters, answers on this machine, and Spark's own logs.
    """
    from tidelog.checkpoints.checkpoint import Checkpoint
    from tidelog.views.checkpoints import problem_lines

    with data_errors():
        problems = Checkpoint(folder).verify(sink)
        if as_json:
            print_json({"whole": not problems, "problems": [vars(p) for p in problems]})
        else:
            _print(problem_lines(folder, problems))
    sys.exit(1 if problems else 0)


@checkpoint_command.command("audit")
@click.argument("folder", metavar="DIR")
@_sink_option
@json_option
def audit_command(folder: str, sink: str | None, as_json: bool) -> None:
    """Count the ledger in DIR again, from dead letters and answers; exit code 1 if it differs."""
    from tidelog.checkpoints.checkpoint import Checkpoint
    from tidelog.views.checkpoints import audit_lines

    with data_errors():
        audit = Checkpoint(folder).audit(sink)
        print_json(audit.as_json()) if as_json else _print(audit_lines(folder, audit))
    sys.exit(1 if audit.wrong else 0)


@checkpoint_command.command("rollback")
@click.argument("folder", metavar="DIR")
@click.option("--to", type=int, required=True, metavar="N", help="The commit to go back to.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@json_option
def rollback_command(folder: str, to: int, yes: bool, as_json: bool) -> None:
    """Take back all commits after N: the next start goes on from N, and reads the rest again."""
    from tidelog.checkpoints.checkpoint import Checkpoint
    from tidelog.views.checkpoints import rollback_lines

    with data_errors():
        checkpoint = Checkpoint(folder)
        plan = checkpoint.plan_rollback(to)
        if not as_json:
            _print(rollback_lines(plan))
        if not yes:
            _confirm(f"go back to {plan.unit} {to}?")
        done = checkpoint.rollback(to)
        if as_json:
            print_json(done.as_json())
        else:
            _print([f"{folder}: went back to {done.unit} {to}"])


def _confirm(question: str) -> None:
    """Go on only if somebody says yes."""
    try:
        agreed = click.confirm(question, err=True)
    except click.Abort:
        terminal.stderr().print("nothing is changed; --yes goes on without a question")
        sys.exit(1)
    if not agreed:
        terminal.stderr().print("nothing is changed")
        sys.exit(1)


@checkpoint_command.command("export")
@click.argument("folder", metavar="DIR")
@click.argument("target", metavar="TARGET")
@click.option("--at", type=int, metavar="N", help="As of this commit; default the last one.")
@click.option(
    "--format",
    "format_",
    type=click.Choice(["parquet", "csv"]),
    default="parquet",
    show_default=True,
    help="What kind of files.",
)
@json_option
def export_command(folder: str, target: str, at: int | None, format_: str, as_json: bool) -> None:
    """Write the state in DIR to the new folder TARGET: a file for each predicate, a row a tick."""
    from tidelog.checkpoints.checkpoint import Checkpoint

    with data_errors():
        written = Checkpoint(folder).export(target, at=at, format_=format_)
        if as_json:
            print_json(written)
        else:
            _print(f"{target}/{name}: {terminal.plural(n, 'row')}" for name, n in written.items())
            if not written:
                _print([f"{target}: the state is empty"])


def _chosen(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options that choose dead letters."""
    for option in (
        click.option("--batch", "batches", metavar="N|A-B", help="Of these batches: 3, 3-5, 3-."),
        click.option("--input", "input_", metavar="P", help="Of this input."),
        click.option("--problem", metavar="TEXT", help="With this problem: late, or a part of it."),
    ):
        command = option(command)
    return command


@checkpoint_command.command("letters")
@click.argument("folder", metavar="DIR")
@_chosen
@click.option("--out", metavar="FILE", help="Write them as JSON lines that --facts reads.")
@json_option
def letters_command(
    folder: str,
    problem: str | None,
    input_: str | None,
    batches: str | None,
    out: str | None,
    as_json: bool,
) -> None:
    """List the dead letters in DIR by problem and input; --out writes them to send them again."""
    from tidelog.checkpoints.checkpoint import Checkpoint
    from tidelog.checkpoints.letters import Chosen, grouped
    from tidelog.views.checkpoints import letter_lines

    try:
        Chosen.of(problem, input_, batches)
    except ValueError as error:
        raise click.UsageError(f"--batch: {error}") from error
    chosen = (problem, input_, batches)
    with data_errors():
        checkpoint = Checkpoint(folder)
        if out is None:
            groups = grouped(checkpoint.letters(*chosen))
            if as_json:
                print_json([group.as_json() for group in groups])
            else:
                _print(letter_lines(groups))
            return
        rows, others = checkpoint.replay(out, *chosen)
        if as_json:
            print_json({"rows": rows, "without_a_row": others})
            return
        _print([f"{out}: {terminal.plural(rows, 'row')}"])
        if others:
            said = f"{terminal.plural(others, 'dead letter')} could not be read as a row"
            terminal.stderr().print(f"warning: {said}: see their `text` in {folder}/dead_letters")

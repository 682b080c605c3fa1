"""What `tidelog --help` says of each command in a line, and examples for the command's own help."""

from __future__ import annotations

import click

# By command: a line that an ordinary terminal shows whole, and what one would type.
HELP: dict[str, tuple[str, tuple[str, ...]]] = {
    "check": (
        "Say everything that is wrong with rules.",
        ("tidelog check rules.tdl", "tidelog check --strict --format github *.tdl"),
    ),
    "fmt": (
        "Lay rules out in the one standard way.",
        ("tidelog fmt rules.tdl", "tidelog fmt --check rules.tdl"),
    ),
    "explain": (
        "Say what kind of query each output is, and why.",
        (
            "tidelog explain rules.tdl",
            "tidelog explain rules.tdl --query Alarm --show class,pipeline",
            "tidelog explain rules.tdl --query Alarm --show sql --facts facts/",
        ),
    ),
    "query": (
        "Answer the outputs over finite facts.",
        (
            "tidelog query rules.tdl --facts facts/ --format table",
            "tidelog query rules.tdl --facts metrics.csv --tick 1m --query Hot --out hot.parquet",
        ),
    ),
    "run": (
        "Run rules over a stream of facts.",
        (
            "tidelog run rules.tdl --facts arriving/ --checkpoint state --sink jsonl:answers.jsonl",
            "tail -f events.jsonl | tidelog run rules.tdl --facts - --mode online",
        ),
    ),
    "checkpoint": (
        "Look at a stream's checkpoint, verify it, go back.",
        (
            "tidelog checkpoint show state",
            "tidelog checkpoint verify state",
            "tidelog checkpoint rollback state --to 41",
        ),
    ),
    "checkpoint show": ("Say how far a stream is.", ("tidelog checkpoint show state --json",)),
    "checkpoint verify": (
        "Say what is missing or damaged.",
        (
            "tidelog checkpoint verify state",
            "tidelog checkpoint verify copy --sink csv:answers-copy",
        ),
    ),
    "checkpoint audit": (
        "Count the ledger again.",
        ("tidelog checkpoint audit state --sink csv:answers",),
    ),
    "checkpoint rollback": (
        "Go back to an earlier commit.",
        ("tidelog checkpoint rollback state --to 41 --yes",),
    ),
    "checkpoint export": (
        "Write the state as tables.",
        ("tidelog checkpoint export state tables --format csv",),
    ),
    "checkpoint letters": (
        "List dead letters, or write them as facts.",
        (
            "tidelog checkpoint letters state",
            "tidelog checkpoint letters state --problem late --out late.jsonl",
        ),
    ),
    "test": (
        "Run the tests of rules: YAML beside them.",
        ("tidelog test", "tidelog test rules.test.yaml --coverage --junit report.xml"),
    ),
    "why": (
        "Say why a fact holds, or why it does not.",
        ('tidelog why rules.tdl --facts facts/ "Alarm(north) @ 7"',),
    ),
    "report": (
        "Draw rules, and what holds when, as one HTML page.",
        ("tidelog report rules.tdl --facts facts/ --out report.html",),
    ),
    "analyze": (
        "Say how long to wait and what to keep.",
        ("tidelog analyze rules.tdl",),
    ),
    "delay": (
        "Say how long answers wait until they are final.",
        ("tidelog delay rules.tdl --query Alarm",),
    ),
    "window": (
        "Say how much history answers need.",
        ("tidelog window rules.tdl --query Alarm",),
    ),
    "definitive": (
        "Say whether answers at a time can still change.",
        ("tidelog definitive rules.tdl --facts facts/ --query Alarm --tin 9 --tout 7",),
    ),
    "forgettable": (
        "Say whether old facts can be forgotten.",
        ("tidelog forgettable rules.tdl --facts facts/ --query Alarm --tin 9 --tout 8 --tmem 5",),
    ),
    "contained": (
        "Say whether one program answers no more than another.",
        ("tidelog contained old.tdl new.tdl --query Alarm",),
    ),
    "lsp": (
        "Help an editor while rules are written.",
        ("tidelog lsp", "tidelog lsp --tcp :2087"),
    ),
}


def with_help(command: click.Command, group: str = "") -> click.Command:
    """The command with its line and its examples; those of a group, too."""
    assert command.name is not None
    for inner in command.commands.values() if isinstance(command, click.Group) else ():
        with_help(inner, f"{command.name} ")
    line, examples = HELP[f"{group}{command.name}"]
    command.short_help = line
    shown = "\n".join(f"  {example}" for example in examples)
    command.epilog = f"\b\nExamples:\n{shown}"
    return command

"""The commands as people use them: exit codes, files, standard input, pipes, encodings."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from support.places import ROOT

from tidelog import __version__
from tidelog.cli import _failed, cli

TURBINES = str(ROOT / "examples" / "turbines" / "rules.tdl")


def run(*args: str, stdin: str | bytes | None = None) -> Result:
    return CliRunner().invoke(cli, args, input=stdin)


def process(
    *args: str, stdin: bytes = b"", env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[bytes]:
    """The command in a process of its own, for what only a real one shows."""
    return subprocess.run(
        [sys.executable, "-m", "tidelog.cli", *args],
        input=stdin,
        capture_output=True,
        env={**os.environ, **(env or {})},
        timeout=60,
        check=False,
    )


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    return tmp_path / "rules.tdl"


# Exit codes


@pytest.mark.parametrize(
    ("text", "code"),
    [("P(X) :- E(X).", 0), ("P :- E(X).", 0), ("P(X) :- E(Y), F(Y).", 1), ("P(", 1), ("", 0)],
)
def test_check_exits_with_1_for_errors_only(rules: Path, text: str, code: int) -> None:
    rules.write_text(text)
    assert run("check", str(rules)).exit_code == code
    assert run("check", str(rules), "--json").exit_code == code
    assert run("check", "-", stdin=text).exit_code == code


def test_strict_makes_warnings_errors(rules: Path) -> None:
    rules.write_text("input E(a: text) @ t. P(X) @ T :- E(X) @ T. P(Y) @ T :- E(Y) @ T.")
    for command in (["check"], ["query", "--query", "P"]):
        assert run(*command, str(rules)).exit_code == 0
        result = run(*command, str(rules), "--strict")
        assert result.exit_code == 1
        assert "warning[W305]" in result.output
    rules.write_text("input E(a: text) @ t. P(X) @ T :- E(X) @ T.")
    assert run("check", str(rules), "--strict").exit_code == 0


@pytest.mark.parametrize(
    "args",
    [
        ["check"],
        ["check", "a", "b"],
        ["check", "--colour", TURBINES],
        ["chekc", TURBINES],
        ["explain", TURBINES, "--show", "everything"],
        ["explain", TURBINES, "--query", "Nothing"],
        ["check", "no/such/file.tdl"],
        ["fmt", "no/such/file.tdl"],
        ["explain", "no/such/file.tdl"],
        ["check", str(ROOT)],
        ["fmt", str(ROOT)],
    ],
)
def test_wrong_use_exits_with_2(args: list[str]) -> None:
    result = run(*args)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert "Error: " in result.stderr


def test_a_missing_file_is_named() -> None:
    assert (
        "cannot read no/such.tdl: No such file or directory" in run("check", "no/such.tdl").stderr
    )


def test_a_folder_is_not_rules() -> None:
    assert "is a directory" in run("check", str(ROOT)).stderr


@pytest.mark.parametrize("command", ["check", "fmt", "explain"])
def test_an_unreadable_file(rules: Path, command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Refused when it is opened; patched, since root may read everything."""

    def refuse(path: Path) -> bytes:
        raise PermissionError(13, "Permission denied", str(path))

    rules.write_text("P(a).")
    monkeypatch.setattr(Path, "read_bytes", refuse)
    result = run(command, str(rules))
    assert result.exit_code == 2
    assert f"cannot read {rules}: Permission denied" in result.stderr


def test_version_and_help() -> None:
    assert run("--version").stdout == f"tidelog, version {__version__}\n"
    for args in (["--help"], ["-h"], ["check", "-h"], ["fmt", "-h"], ["explain", "-h"]):
        assert run(*args).exit_code == 0
    assert all(name in run("-h").stdout for name in ("check", "fmt", "explain"))


# check


def test_check_json(rules: Path) -> None:
    rules.write_text("P(X) :- E(Y).\n")
    data = json.loads(run("check", str(rules), "--json").stdout)
    assert {k: data[k] for k in ("file", "errors", "warnings")} == {
        "file": str(rules),
        "errors": 1,
        "warnings": 1,
    }
    assert [d["code"] for d in data["diagnostics"]] == ["E101", "W304"]
    keys = {"code", "title", "severity", "message", "notes", "hint"}
    place = {"file", "line", "column", "end_line", "end_column"}
    assert all(set(d) == keys | place for d in data["diagnostics"])


LAST = """input E(a: text, v: int) @ t.
Last(X, V) @ T :- E(X, V) @ T.
Last(X, V) @ T+1 :- Last(X, V) @ T, not E(X, _) @ T+1.
"""


def test_a_note_is_no_problem(rules: Path) -> None:
    rules.write_text(LAST)
    for strict in ([], ["--strict"]):
        checked = run("check", str(rules), *strict)
        assert checked.exit_code == 0
        assert checked.stdout.count("note[N401]: ") == 1
        assert checked.stdout.endswith("no problems in 2 rules, 1 input, 1 output; 1 note\n")
        asked = run("query", str(rules), *strict, "--query", "Last")
        assert (asked.exit_code, "note" in asked.stderr) == (0, False)
    rules.write_text(f"{LAST}P(X) @ T :- E(X, V) @ T.")
    assert run("check", str(rules)).stdout.endswith(": 1 warning, 1 note\n")


def test_a_note_as_json(rules: Path) -> None:
    rules.write_text(LAST)
    result = run("check", str(rules), "--json", "--strict")
    assert result.exit_code == 0
    data = json.loads(result.stdout)
    assert (data["errors"], data["warnings"], data["notes"]) == (0, 0, 1)
    assert [(d["code"], d["severity"], d["line"]) for d in data["diagnostics"]] == [
        ("N401", "note", 2)
    ]


def test_standard_input_has_a_name() -> None:
    assert run("check", "-", stdin="P(a)").stdout.splitlines()[1] == " --> <stdin>:1:5"


# fmt


def test_fmt_writes_in_place_and_says_so(rules: Path) -> None:
    rules.write_text("P( X ):-E(X).%why\n")
    result = run("fmt", str(rules))
    assert (result.exit_code, result.output) == (0, f"{rules}: reformatted\n")
    assert rules.read_text() == "P(X) :- E(X).  % why\n"
    result = run("fmt", str(rules))
    assert (result.exit_code, result.output) == (0, "")


def test_fmt_check_changes_nothing(rules: Path) -> None:
    rules.write_text("P( X ):-E(X).")
    before = rules.stat()
    result = run("fmt", "--check", str(rules))
    assert (result.exit_code, result.output) == (1, f"{rules}: would be reformatted\n")
    assert rules.read_text() == "P( X ):-E(X)."
    assert rules.stat() == before or rules.stat().st_mtime_ns == before.st_mtime_ns
    rules.write_text("P(X) :- E(X).\n")
    assert run("fmt", "--check", str(rules)).exit_code == 0


def test_fmt_as_a_filter() -> None:
    assert run("fmt", "-", stdin="P( X ):-E(X).").stdout == "P(X) :- E(X).\n"
    result = run("fmt", "-", "--check", stdin="P( X ):-E(X).")
    assert (result.exit_code, result.stdout) == (1, "<stdin>: would be reformatted\n")


def test_fmt_json(rules: Path) -> None:
    rules.write_text("P( X ):-E(X).")
    for changed in (True, False):
        data = json.loads(run("fmt", "--json", str(rules)).stdout)
        assert data == {"file": str(rules), "changed": changed}


@pytest.mark.parametrize("mode", [0o600, 0o644, 0o755])
def test_fmt_keeps_the_mode(rules: Path, mode: int) -> None:
    rules.write_text("P( a ).")
    rules.chmod(mode)
    assert run("fmt", str(rules)).exit_code == 0
    assert rules.read_text() == "P(a).\n"
    assert rules.stat().st_mode & 0o777 == mode


def test_fmt_follows_links(tmp_path: Path, rules: Path) -> None:
    rules.write_text("P( a ).")
    link = tmp_path / "link.tdl"
    link.symlink_to(rules)
    assert run("fmt", str(link)).exit_code == 0
    assert link.is_symlink()
    assert rules.read_text() == "P(a).\n"


@pytest.mark.parametrize("step", ["chmod", "replace"])
def test_fmt_leaves_the_old_file_whole_when_writing_fails(
    rules: Path, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The new text is written beside the file and renamed over it: never half a file."""

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    rules.write_text("P( a ).")
    monkeypatch.setattr(os, step, fail)
    result = run("fmt", str(rules))
    assert result.exit_code == 2
    assert "No space left on device" in result.stderr
    assert rules.read_text() == "P( a )."
    assert [p.name for p in rules.parent.iterdir()] == ["rules.tdl"]


@pytest.mark.parametrize("raw", [b"P(X :- E(X).\n\n\n", b"P(\xff).", b'P("open).'])
def test_fmt_refuses_what_it_cannot_read(rules: Path, raw: bytes) -> None:
    rules.write_bytes(raw)
    for args in ([], ["--check"], ["--json"]):
        result = run("fmt", str(rules), *args)
        assert result.exit_code == 1
        assert result.stdout == ""
        assert "error[E00" in result.stderr
        assert rules.read_bytes() == raw


def test_fmt_undoes_other_systems_line_ends(rules: Path) -> None:
    rules.write_bytes(b"\xef\xbb\xbfP(a).\r\nP(b).\r\n")
    assert run("fmt", str(rules)).exit_code == 0
    assert rules.read_bytes() == b"P(a).\nP(b).\n"


# explain


def test_explain_answers_for_every_output() -> None:
    heads = [line for line in run("explain", TURBINES).stdout.splitlines() if line[:1].strip()]
    assert heads == [
        "Malfunc: class 1, nonrecursive and connected",
        "AtRisk: class 2, recursive, with bounded derived state",
    ]


def test_explain_one_query_more_than_once() -> None:
    result = run("explain", TURBINES, "--query", "Shdn", "--query", "Shdn", "--query", "Temp")
    names = [line.split(":")[0] for line in result.stdout.splitlines() if line[:1].strip()]
    assert names == ["Shdn", "Temp"]


def test_explain_json() -> None:
    data = json.loads(run("explain", TURBINES, "--json").stdout)
    assert data["file"] == TURBINES
    malfunc, at_risk = data["queries"]
    assert (malfunc["query"], malfunc["class"], malfunc["phi"]) == ("Malfunc", 1, 2)
    assert (malfunc["rank"], malfunc["recursive"], malfunc["connected"]) == (4, False, True)
    names = ("Temp", "Flag", "Cool", "Shdn", "Malfunc")
    assert malfunc["key"] == dict.fromkeys(names, 1)
    assert (at_risk["class"], at_risk["phi"], at_risk["rank"], at_risk["key"]) == (2, 0, None, None)
    assert at_risk["no_key"] == "a rule shares no argument between AtRisk, Shdn"
    assert at_risk["rules"][0]["line"] == 14
    keep = {p["predicate"]: p["keep"] for p in at_risk["predicates"]}
    assert keep == {"AtRisk": 1, "Shdn": 0, "Cool": 1, "Flag": 1, "Near": None, "Temp": 0}
    offsets = {p["predicate"]: p["offsets"] for p in at_risk["predicates"]}
    assert (offsets["AtRisk"], offsets["Near"]) == ([None, 0], None)


def test_explain_json_has_null_for_what_is_unbounded() -> None:
    text = "Late @ T :- Alarm @ T. Late @ T :- Late @ T+1."
    (late,) = json.loads(run("explain", "-", "--json", stdin=text).stdout)["queries"]
    assert (late["class"], late["phi"]) == (3, None)


def test_explain_suggests_a_query() -> None:
    assert "did you mean Malfunc?" in run("explain", TURBINES, "--query", "Malfnuc").stderr
    other = run("explain", TURBINES, "--query", "Xyzzy").stderr
    assert "no predicate Xyzzy in the rules; there are: Malfunc, AtRisk, Flag" in other
    assert "there are: none" in run("explain", "-", "--query", "P", stdin="").stderr


def test_explain_names_its_sections() -> None:
    said = run("explain", TURBINES, "--show", "phi,nonsense").stderr
    assert "--show knows class, graph, phi" in said
    assert "; not nonsense" in said


def test_explain_shows_what_is_asked_for() -> None:
    lines = run("explain", TURBINES, "--query", "Shdn", "--show", "phi").stdout.splitlines()
    assert lines[1].split() == ["predicate", "phi", "keep", "offsets", "input", "offsets"]
    assert lines[2].split() == ["Shdn", "0", "0", "[0,", "0]", "[-2,", "0]"]
    assert not any("because" in line for line in lines)


def test_explain_refuses_wrong_rules_and_keeps_warnings_apart(rules: Path) -> None:
    rules.write_text("P(X) :- E(Y).")
    result = run("explain", str(rules))
    assert (result.exit_code, result.stdout) == (1, "")
    assert "error[E101]" in result.stderr
    rules.write_text("P :- E(X).")
    result = run("explain", str(rules), "--json")
    assert result.exit_code == 0
    assert json.loads(result.stdout)["queries"][0]["query"] == "P"
    assert "warning[W304]" in result.stderr


# A real process


def test_a_reader_that_stops_early_is_no_error(tmp_path: Path) -> None:
    big = tmp_path / "big.tdl"
    big.write_text("".join(f"P{i}(X) :- E(Y), F(Y).\n" for i in range(5000)))
    for args in (["check"], ["check", "--json"]):
        with subprocess.Popen(
            [sys.executable, "-m", "tidelog.cli", *args, str(big)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        ) as command:
            assert command.stdout is not None
            assert command.stderr is not None
            assert command.stdout.readline()
            command.stdout.close()
            assert command.stderr.read() == b""
            assert command.wait(60) == 1


@pytest.mark.parametrize(
    "env", [{"PYTHONIOENCODING": "ascii"}, {"LC_ALL": "C"}, {"LC_ALL": "C", "PYTHONUTF8": "0"}]
)
def test_a_terminal_that_cannot_show_everything(tmp_path: Path, env: dict[str, str]) -> None:
    path = tmp_path / "wärme.tdl"
    path.write_text('Wärme(X) @ T :- E(X, "😀", Y) @ T, Ä > 1.\n', "utf-8")
    for args in (["check"], ["check", "--json"], ["fmt", "--check"], ["explain"]):
        result = process(*args, str(path), env=env)
        assert result.returncode in (0, 1)
        assert b"Traceback" not in result.stderr + result.stdout
    data = json.loads(process("check", "--json", str(path), env=env).stdout.decode("utf-8"))
    assert "`Ä` is compared but has no value" in [d["message"] for d in data["diagnostics"]]


def test_output_through_a_pipe_has_no_colour() -> None:
    assert b"\x1b" not in process("check", "-", stdin=b"P(X).").stdout


def test_colour_where_a_person_is_looking() -> None:
    """The same text, once the colours are taken out."""
    plain = process("check", "-", stdin=b"P(X) :- E(Y), F(Y).").stdout.decode()
    shown = process(
        "check", "-", stdin=b"P(X) :- E(Y), F(Y).", env={"FORCE_COLOR": "1", "TERM": "xterm"}
    ).stdout.decode()
    assert "\x1b[" in shown
    assert re.sub(r"\x1b\[[0-9;]*m", "", shown) == plain


def test_fmt_writes_utf8_whatever_the_terminal() -> None:
    result = process("fmt", "-", stdin='P("温度" ).'.encode(), env={"PYTHONIOENCODING": "ascii"})
    assert result.stdout.decode("utf-8") == 'P("温度").\n'


@pytest.mark.parametrize(
    "args", [["check"], ["fmt"], ["explain"], ["explain", "--json"], ["query"]]
)
def test_a_full_disk_is_one_sentence(args: list[str]) -> None:
    with open("/dev/full", "wb") as full:
        result = subprocess.run(
            [sys.executable, "-m", "tidelog.cli", *args, "-"],
            input=b"P(a) @ 0.",
            stdout=full,
            stderr=subprocess.PIPE,
            timeout=60,
            check=False,
        )
    assert result.returncode == 75
    assert result.stderr == b"Error: cannot write to standard output: No space left on device\n"


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-"])
@pytest.mark.parametrize("command", ["check", "fmt", "explain", "query"])
def test_a_closed_stream_is_an_empty_one(command: str, closed: str) -> None:
    result = subprocess.run(
        ["sh", "-c", f'exec "$0" -m tidelog.cli {command} - {closed}', sys.executable],
        input=b"P(a) @ 0.\n",
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert (result.returncode, result.stderr) == (0, b"")


# query --out


def ask(rules: Path, *args: str) -> Result:
    rules.write_text("P(a) @ 0.\n")
    return run("query", str(rules), *args)


def test_out_follows_links(tmp_path: Path, rules: Path) -> None:
    target, link = tmp_path / "target.csv", tmp_path / "link.csv"
    link.symlink_to(target)
    assert ask(rules, "--out", str(link)).exit_code == 0
    assert link.is_symlink()
    assert target.read_text() == "arg1,time\na,0\n"


def test_out_writes_to_a_pipe_and_leaves_it_there(tmp_path: Path, rules: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        assert ask(rules, "--out", str(pipe)).exit_code == 0
        assert os.read(reader, 100) == b"arg1,time\na,0\n"
    finally:
        os.close(reader)
    assert pipe.is_fifo()


def test_out_with_a_slash_is_a_folder(tmp_path: Path, rules: Path) -> None:
    assert ask(rules, "--out", f"{tmp_path}/new/").exit_code == 0
    assert (tmp_path / "new" / "P.csv").read_text() == "arg1,time\na,0\n"


@pytest.mark.parametrize("option", ["--out", "--facts"])
def test_an_empty_path_is_not_the_current_folder(rules: Path, option: str) -> None:
    result = ask(rules, option, "")
    assert result.exit_code == 2
    assert f"{option} names no file or folder" in result.stderr


def test_every_command_has_a_line_and_examples() -> None:
    _, _, listed = run("--help").output.partition("Commands:")
    assert listed
    assert "..." not in listed
    for name in cli.commands:
        if name == "analyse":  # the other spelling of analyze
            continue
        shown = run(name, "--help").output
        _, _, examples = shown.partition("Examples:\n")
        commands = [line for line in examples.splitlines() if "tidelog " in line]
        assert commands, name
        assert all(f"tidelog {name}" in line for line in commands)


def test_examples_use_options_that_there_are() -> None:
    for name, command in cli.commands.items():
        whole = [command, *getattr(command, "commands", {}).values()]
        options = {option for part in whole for param in part.params for option in param.opts}
        for line in (command.epilog or "").splitlines():
            used = re.findall(r"(?<=\s)--?[a-z][\w-]*", line.partition(f"tidelog {name}")[2])
            assert set(used) <= options, line


@pytest.mark.parametrize(
    ("place", "said"),
    [
        ("/x/click/utils.py", "cannot write to standard output: Invalid argument"),
        (
            "/x/tidelog/streaming/sinks/lines.py",
            "the operating system says: Invalid argument (asked by sinks/lines.py, line 1)",
        ),
    ],
)
def test_an_operating_systems_error_says_what_failed(place: str, said: str) -> None:
    """`tidelog run` once called any such error a failure of standard output."""
    error = OSError(22, "Invalid argument")
    with pytest.raises(OSError, match="Invalid argument") as caught:
        exec(compile("raise error", place, "exec"), {"error": error})
    assert _failed(caught.value) == said
    assert _failed(OSError(28, "No space left on device", "a/b")) == (
        "cannot use a/b: No space left on device"
    )

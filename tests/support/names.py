"""Names of files and folders that are hard to carry through other languages."""

# Names that a file system takes, and that other languages stumble over.
NAMES = (
    "plain",
    "ü %",
    "a b",
    "100%25",
    "it's",
    'say "hi"',
    "two\nlines",
    "*?[x]{y}",
    "back\\slash",
    "c:d",
    "a+b",
    "#&;=",
    "-rf",
    "%",
    "x=1",
    "$HOME",
    "\U0001f30a",
    "\u202edesrever",
    "n" * 200,
    "tab\tbell\x07",
)

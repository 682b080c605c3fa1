"""Messages that no producer should send: each is put aside or ignored, and stops nothing.

All are for an input `E(x: text) @ at`. Those of `FACTS` hold a fact in spite of what they look
like.
"""

from __future__ import annotations

import json


def _nested(depth: int) -> bytes:
    return b'{"predicate": "E", "x": null, "time": 2, "junk": %s}' % (
        b"[" * depth + b"1" + b"]" * depth
    )


def _of(x: str, time: str = "2") -> bytes:
    return f'{{"predicate": "E", "x": {x}, "time": {time}}}'.encode()


LARGE = 1_000_000
DIGITS = "9" * 5000

# The first ones of a batch are quoted in its commit.
HOSTILE: dict[str, bytes | None] = {
    **{f"{depth} levels": _nested(depth) for depth in (900, 700, 70, 495, 980, 990, 5000, 200_000)},
    "tombstone": None,
    "empty": b"",
    "blank": b" \t ",
    "no text": b"\x00",
    "bad UTF-8": b'{"predicate": "E", "x": "\xff\xfe", "time": 2}',
    "half a surrogate in UTF-8": b'{"predicate": "E", "x": "\xed\xa0\x80", "time": 2}',
    "half a surrogate": _of('"\\ud800"'),
    "half a surrogate as a name": b'{"predicate": "\\udfff", "x": "a", "time": 2}',
    "half a surrogate as a key": b'{"predicate": "E", "\\ud800": 1, "x": null, "time": 2}',
    "half a surrogate as a time": _of('"a"', '"\\ud800"'),
    "UTF-16": '{"predicate": "E", "x": "a", "time": 2}'.encode("utf-16"),
    "nested objects": b'{"predicate": "E", "x": ' + b'{"a": ' * 600 + b"1" + b"}" * 602,
    "a nested time": _of('"a"', "[" * 900 + "]" * 900),
    "not closed": b'{"predicate": "E", "x": ' + b"[" * 100_000,
    "NaN": _of("NaN"),
    "infinity": _of("-Infinity", "Infinity"),
    "1e400": _of("1e400"),
    "a time of 1e400": _of('"a"', "1e400"),
    "a huge integer": _of(DIGITS[:4000]),
    "an integer too long to read": _of(DIGITS),
    "a huge time": _of('"a"', DIGITS[:4000]),
    "a time too long to read": _of('"a"', DIGITS),
    "a time of 64 bits": _of('"a"', str(2**63 - 1)),
    "a huge heartbeat": f'{{"time": {DIGITS[:4000]}}}'.encode(),
    "a heartbeat without a time": b'{"time": null}',
    "a large text for a number": _of('"a"', json.dumps("7" * LARGE)),
    "a large name": json.dumps({"predicate": "E" * LARGE, "x": "a", "time": 2}).encode(),
    "a large key": json.dumps({"k" * LARGE: 1, "predicate": "E", "x": None, "time": 2}).encode(),
    "a large text beside nothing": json.dumps({"predicate": "E", "junk": "a" * LARGE}).encode(),
    "a large text that is no JSON": b"a." * (LARGE // 2),
    "addresses without an end": b"a://b:c/" * 20_000,
    "NUL in a name": b'{"predicate": "E\\u0000", "x": "a", "time": 2}',
    "control characters": b'{"predicate": "\\u001b[2J\\u202e", "x": "a", "time": 2}',
    "duplicate keys, the last one null": b'{"predicate": "E", "x": "a", "time": 2, "x": null}',
    "an array": b"[1, 2]",
    "an array as a value": _of("[[]]"),
    "an object as a value": _of("{}"),
    "a number": b"7",
    "null": b"null",
    "a predicate that is none": b'{"predicate": 7, "x": "a", "time": 2}',
    "two in one": _of('"a"') + b" " + _of('"b"'),
    "a variable": b'{"predicate": "${env:HOME}", "x": "a", "time": 2}',
}

# By the text that they bring at tick 2.
FACTS: dict[str, bytes] = {
    "fine": _of('"fine"'),
    "later": b'{"predicate": "E", "x": "first", "time": 2, "x": "later"}',
    "nul\x00inside": _of('"nul\\u0000inside"'),
    "\ufeff": _of('"\\ufeff"'),
    "marked": b"\xef\xbb\xbf" + _of('"marked"'),
    "deep": b'{"predicate": "E", "x": "deep", "time": 2, "junk": ' + b"[" * 60 + b"]" * 60 + b"}",
    "large": b'{"predicate": "E", "x": "large", "time": 2, "junk": "' + b"j" * LARGE + b'"}',
    "${env:HOME}": _of('"${env:HOME}"'),
    "\u202e\x1b[2J": _of('"\\u202e\\u001b[2J"'),
}

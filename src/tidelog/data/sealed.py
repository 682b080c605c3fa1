"""Files that say whether they are whole: JSON with a checksum, written all or nothing."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from tidelog.causes import Cause
from tidelog.errors import Refused


def checksum(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def sealed(value: dict[str, Any]) -> bytes:
    """JSON with a checksum of its own.

    >>> unsealed(sealed({"a": 1}), "here")
    {'a': 1}

    Keys that are numbers become texts, which have another order: they do so before the checksum.

    >>> unsealed(sealed({"tables": {9: 1, 11: 2}}), "here")
    {'tables': {'9': 1, '11': 2}}
    """
    value = json.loads(json.dumps(value))
    text = json.dumps(value, sort_keys=True, ensure_ascii=True)
    whole = {"sha256": checksum(text), **value}
    return (json.dumps(whole, ensure_ascii=True) + "\n").encode()


def unsealed(data: bytes, where: str) -> dict[str, Any]:
    """What was sealed; Refused when anything of it has changed."""
    try:
        value: dict[str, Any] = json.loads(data)
        digest = value.pop("sha256")
        if checksum(json.dumps(value, sort_keys=True, ensure_ascii=True)) == digest:
            return value
    except (ValueError, KeyError, AttributeError, TypeError):
        pass
    raise Refused(
        f"{where} is damaged: restore it from a copy, or start with a new checkpoint",
        code=Cause.DAMAGED,
    )


def sealed_lines(head: dict[str, Any], value: Any) -> str:
    """Two lines of JSON: what this is, with the checksum of the second line; and the value.

    What may be large is then checked without being parsed.
    """
    body = json.dumps(value, separators=(",", ":"))
    return f"{json.dumps({**head, 'sha256': checksum(body)})}\n{body}\n"


def unsealed_lines(text: str) -> tuple[Any, str | None]:
    """The first line's value, or ValueError; the second line, None when it is not whole."""
    lines = text.split("\n")
    head = json.loads(lines[0])
    body = lines[1] if len(lines) == 3 and not lines[2] else None
    if body is not None and isinstance(head, dict) and checksum(body) == head.get("sha256"):
        return head, body
    return head, None

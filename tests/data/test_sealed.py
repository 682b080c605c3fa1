"""Sealed files: whatever is changed in one is noticed."""

from __future__ import annotations

from contextlib import suppress

import pytest

from tidelog.data.sealed import sealed, sealed_lines, unsealed, unsealed_lines
from tidelog.errors import Refused

VALUE = {"stream": "7f", "clock": {"tin": -3, "closed": False}, "text": "\u00fc\n"}


def test_what_is_sealed_comes_back() -> None:
    assert unsealed(sealed(VALUE), "here") == VALUE
    head, body = unsealed_lines(sealed_lines({"format": 1}, VALUE))
    assert head["format"] == 1
    assert body == '{"stream":"7f","clock":{"tin":-3,"closed":false},"text":"\\u00fc\\n"}'


def test_every_changed_byte_is_noticed() -> None:
    data = sealed(VALUE)
    for i in range(len(data)):
        changed = data[:i] + bytes([data[i] ^ 1]) + data[i + 1 :]
        with suppress(Refused):
            assert unsealed(changed, "here") == VALUE, "space between values is not part of them"
    with pytest.raises(Refused, match=r"tidelog\.json is damaged: restore it from a copy"):
        unsealed(data.replace(b"-3", b"-4"), "tidelog.json")


@pytest.mark.parametrize("cut", [1, 2, 20])
def test_lines_that_are_not_whole(cut: int) -> None:
    text = sealed_lines({"format": 1}, VALUE)
    assert unsealed_lines(text[:-cut])[1] is None
    assert unsealed_lines(text + "more\n")[1] is None
    assert unsealed_lines(text.replace("tin", "tout"))[1] is None

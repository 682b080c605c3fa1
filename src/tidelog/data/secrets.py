"""Texts without credentials: what is stored, logged or shown never carries a password."""

from __future__ import annotations

import re

_SECRET = (
    r"(?:pass(?:word|wd|phrase)?|pwd|secret|token|sig(?:nature)?|credentials?|key(?:id)?|auth)"
)
# In Azure's addresses the name before the @ is a container.
_USER = re.compile(r"\b(?!abfss?:|wasbs?:)([a-z][a-z0-9+.-]*://)[^/\s@?#'\"]*@", re.IGNORECASE)
# A key may have slashes in it; a number after the colon is a port.
_PASSWORD = re.compile(
    r"\b([a-z][a-z0-9+.-]*://)[^/\s:@?#'\"]*:(?!\d*(?:/|$))[^\s@'\"]*@", re.IGNORECASE
)
_PARAMETER = re.compile(rf"([?&;][\w.%-]*{_SECRET}=)[^&;\s'\"]*", re.IGNORECASE)
_OPTION = re.compile(
    r"(\b[\w.-]*(?:password|passwd|secret|token|credentials?|access[._-]?key)[\w.-]*=)"
    r"(?:\"[^\"]*\"|'[^']*'|[^\s,;&\"']+)",
    re.IGNORECASE,
)


def without_secrets(text: str) -> str:
    """The text with `***` where an address or an option carries a credential.

    >>> without_secrets("s3a://AKIA:x/y+z@readings/2024")
    's3a://***@readings/2024'
    >>> without_secrets("https://store/in.csv?day=3&token=abc")
    'https://store/in.csv?day=3&token=***'
    >>> without_secrets("PlainLoginModule required username=a password='b c';")
    'PlainLoginModule required username=a password=***;'
    >>> without_secrets("hdfs://name:8020/data@noon and abfss://box@store.net/in")
    'hdfs://name:8020/data@noon and abfss://box@store.net/in'
    """
    for pattern, shown in (
        (_PASSWORD, r"\1***@"),
        (_USER, r"\1***@"),
        (_PARAMETER, r"\1***"),
        (_OPTION, r"\1***"),
    ):
        text = pattern.sub(shown, text)
    return text

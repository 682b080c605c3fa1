"""Texts without credentials: what is stored, logged or shown never carries a password."""

from __future__ import annotations

import re

_SECRET = (
    r"(?:pass(?:word|wd|phrase)?|pwd|secret|token|sig(?:nature)?|credentials?|key(?:id)?|auth)"
)
_PARAMETER = re.compile(rf"([?&;][\w.%-]*{_SECRET}=)[^&;\s'\"]*", re.IGNORECASE)
# A name that may be of an option; its value follows.
_NAME = re.compile(r"[\w.-]+")
_SECRET_NAME = re.compile(
    r"password|passwd|secret|token|credentials?|access[._-]?key", re.IGNORECASE
)
# The key of a store on Azure.
_ACCOUNT_KEY = re.compile(r"account\.key|\.sas\b|jaas", re.IGNORECASE)
_VALUE = re.compile(r"\"[^\"]*\"|'[^']*'|[^\s,;&\"']+")
# In an address: the name of who logs in, and what ends that and a password.
_USER = re.compile(r"[^/:?#]*")
_PORT = re.compile(r":\d*/")
_LOGIN_END = re.compile(r"[\s@'\"]")
# In Azure's addresses the name before the @ is a container.
_AZURE = ("abfs", "abfss", "wasb", "wasbs")


def is_secret(name: str) -> bool:
    """Whether the value of an option is a credential, by its name.

    >>> is_secret("spark.hadoop.fs.s3a.secret.key"), is_secret("spark.driver.memory")
    (True, False)
    """
    return _SECRET_NAME.search(name) is not None or _ACCOUNT_KEY.search(name) is not None


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
    return _without_options(_PARAMETER.sub(r"\1***", _without_logins(text)))


# Every text is gone through once: what is shown may come from data, and be of any length.


def _without_logins(text: str) -> str:
    parts: list[str] = []
    done, end = 0, -1
    at = text.find("://")
    while at >= 0:
        start = at + len("://")
        if end < start:
            found = _LOGIN_END.search(text, start)
            end = len(text) if found is None else found.start()
        if text[end : end + 1] == "@" and _is_login(text, at, start, end):
            parts += [text[done:start], "***"]
            done = start = end
        at = text.find("://", start)
    return "".join([*parts, text[done:]])


def _is_login(text: str, at: int, start: int, end: int) -> bool:
    """Whether what follows a scheme is somebody who logs in; `end` is the next @."""
    if not re.match(r"[A-Za-z0-9+.-]", text[at - 1 : at]):
        return False
    user = _USER.match(text, start, end)
    after = start if user is None else user.end()
    if after == end:
        scheme = re.search(r"[A-Za-z0-9+.-]*\Z", text[max(at - 20, 0) : at])
        return scheme is None or scheme[0].lower() not in _AZURE
    # A key may have slashes in it; a number after the colon is a port.
    return text[after] == ":" and _PORT.match(text, after) is None


def _without_options(text: str) -> str:
    parts: list[str] = []
    done = 0
    for name in _NAME.finditer(text):
        end = name.end()
        if name.start() < done or text[end : end + 1] != "=" or not _SECRET_NAME.search(name[0]):
            continue
        value = _VALUE.match(text, end + 1)
        if value is not None:
            parts += [text[done : end + 1], "***"]
            done = value.end()
    return "".join([*parts, text[done:]])

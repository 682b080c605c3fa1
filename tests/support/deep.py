"""How many examples a generated test tries.

`make test-deep` tries ten times as many, `make test-fast` a tenth.
"""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

DEEP = float(os.environ.get("TIDELOG_DEEP", "1"))


def times(n: int) -> int:
    """As many as n, times TIDELOG_DEEP."""
    return max(1, round(n * DEEP))


def examples(n: int, deep: int | None = None) -> settings:
    """Settings for a test that tries n examples, times TIDELOG_DEEP.

    Where they are too costly for `make test`, `deep` is what `make test-deep` tries instead.
    """
    return settings(
        max_examples=deep if deep is not None and DEEP > 1 else times(n),
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )

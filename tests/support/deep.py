"""How many examples a generated test tries: `make test-deep` tries ten times as many."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

DEEP = int(os.environ.get("TIDELOG_DEEP", "1"))


def examples(n: int) -> settings:
    """Settings for a test that tries n examples, times TIDELOG_DEEP."""
    return settings(
        max_examples=n * DEEP,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )

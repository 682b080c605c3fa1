"""What every test may use: the shared data folder and the Hypothesis settings."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import settings

ROOT = Path(__file__).resolve().parent.parent

# The same examples in every run: a failure here is a failure everywhere.
settings.register_profile("default", derandomize=True, deadline=None)
settings.load_profile("default")


def shared_data_folder() -> Path | None:
    """The folder named by TIDELOG_DATA, or `shared/data` beside the checkout."""
    named = os.environ.get("TIDELOG_DATA")
    folder = Path(named) if named else ROOT.parent / "shared" / "data"
    return folder if folder.is_dir() else None


@pytest.fixture(scope="session")
def shared_data() -> Path:
    folder = shared_data_folder()
    if folder is None:
        pytest.skip(
            "shared data not found: set TIDELOG_DATA to the folder that holds la_haute_borne/ "
            "and nab/, or put it at ../shared/data beside the checkout"
        )
    return folder

import json
from pathlib import Path

import numpy as np
import pytest

FILE = Path(__file__).parents[1] / "golden" / "statistics.json"


def revive(value):
    """Turn the strings that stand for non-finite numbers back into numbers."""
    if isinstance(value, dict):
        return {key: revive(item) for key, item in value.items()}
    if isinstance(value, list):
        return [revive(item) for item in value]
    return float(value) if value in ("nan", "inf", "-inf") else value


@pytest.fixture(scope="session")
def golden():
    """Return recorded numbers by name; the note of each states its tolerance."""
    return revive(json.loads(FILE.read_text())).__getitem__


@pytest.fixture
def beta():
    """Scores in [0, 1]: 10 runs of 6 tasks of different means."""
    rng = np.random.default_rng(7)
    return rng.beta(rng.uniform(1.0, 6.0, 6), 3.0, size=(10, 6))

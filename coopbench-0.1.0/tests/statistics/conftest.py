import json
from pathlib import Path

import numpy as np
import pytest

FOLDER = Path(__file__).parents[1] / "golden" / "statistics"


def revive(value):
    """Turn the strings that stand for non-finite numbers back into numbers."""
    if isinstance(value, dict):
        return {key: revive(item) for key, item in value.items()}
    if isinstance(value, list):
        return [revive(item) for item in value]
    return float(value) if value in ("nan", "inf", "-inf") else value


@pytest.fixture(scope="session")
def golden():
    """Read a recorded file by name; every file's note states its tolerance."""
    return lambda name: revive(json.loads((FOLDER / f"{name}.json").read_text()))


@pytest.fixture
def beta():
    """Scores in [0, 1]: 10 runs of 6 tasks of different means."""
    rng = np.random.default_rng(7)
    return rng.beta(rng.uniform(1.0, 6.0, 6), 3.0, size=(10, 6))

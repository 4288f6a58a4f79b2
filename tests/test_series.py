"""Series of a user's own. Every number here is made up for the test; none is history."""

import numpy as np
import pytest

from studies.series import match, read_series, series_matching

MADE_UP = "samsung_0,sony_0\n0.5,0\n0.25,1\n1, 0.75\n"
AGENTS = ["samsung_0", "sony_0"]


@pytest.fixture
def write(tmp_path):
    def written(text):
        file = tmp_path / "mine.csv"
        file.write_bytes(text.encode())
        return file

    return written


def test_read(write):
    values = [[0.5, 0.0], [0.25, 1.0], [1.0, 0.75]]
    assert read_series(write(MADE_UP), AGENTS).tolist() == values
    spaced = "\ufeff" + MADE_UP.replace("\n", "\r\n\r\n")  # as a spreadsheet may write it
    assert read_series(write(spaced), AGENTS).tolist() == values
    swapped = read_series(write(MADE_UP), AGENTS[::-1])
    assert swapped.tolist() == [row[::-1] for row in values]


def test_matching_by_hand():
    """Distances 0.5 / 1, 0 / 0.5, 0.2 / 0.8 and 0.2 / 0.7 over four numbers."""
    target = np.array([[0.0, 0.5], [0.2, 0.7]])
    played = np.array([[0.5, 0.5], [0.0, 0.9]])
    assert series_matching(played, target) == pytest.approx(1 - (0.5 + 0.25 + 2 / 7) / 4)
    assert series_matching(target, target) == 1.0
    assert series_matching(np.array([[1.0, 0.0]]), np.array([[0.0, 1.0]])) == 0.0


def test_match_plays_in_all_seats(write):
    """Constants by hand: the same in every episode and as long as the series."""
    file = write(MADE_UP)
    by_hand = 1 - (0 + 0.5 + 0.25 / 0.75 + 0.5 + 0.5 + 0.25 / 0.75) / 6
    assert match("SLCD-v0", file, "constant:0.5", 4) == pytest.approx([by_hand] * 4)
    drawn = match("SLCD-v1", file, "random", 4, 3)
    assert len(set(drawn)) == 4
    assert match("SLCD-v1", file, "random", 3, 4).tolist() == drawn[1:].tolist()

"""Series of a user's own. Every number here is made up for the test; none is history."""

import numpy as np
import pytest

from coopbench.theory import match, read_series, series_matching

MADE_UP = "samsung_0,sony_0\n0.5,0\n0.25,1\n1, 0.75\n"


@pytest.fixture
def write(tmp_path):
    def written(text):
        file = tmp_path / "mine.csv"
        file.write_bytes(text if isinstance(text, bytes) else text.encode())
        return file

    return written


def test_read(write):
    values = [[0.5, 0.0], [0.25, 1.0], [1.0, 0.75]]
    assert read_series(write(MADE_UP)).tolist() == values
    spaced = "\ufeff" + MADE_UP.replace("\n", "\r\n\r\n")  # as a spreadsheet may write it
    assert read_series(str(write(spaced)), ["samsung_0", "sony_0"]).tolist() == values
    swapped = read_series(write(MADE_UP), ["sony_0", "samsung_0"])
    assert swapped.tolist() == [row[::-1] for row in values]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "mine.csv is empty"),
        ("samsung_0,sony_0\n", "mine.csv holds no step: after line 1"),
        ("samsung_0,sony_0\n\n0.5,x\n", "line 3, column 'sony_0' was 'x'; allowed: a number in"),
        ("samsung_0,sony_0\n1.01,0\n", "line 2, column 'samsung_0' was '1.01'; allowed"),
        ("samsung_0,sony_0\n0,-0.1\n", "line 2, column 'sony_0' was '-0.1'"),
        ("samsung_0,sony_0\n0,nan\n", "line 2, column 'sony_0' was 'nan'"),
        ("samsung_0,sony_0\n0,\n", "line 2, column 'sony_0' was ''"),
        ("samsung_0,sony_0\n0,0\n0\n", "line 3 has 1 values; allowed: 2, one for each agent"),
        ("samsung_0,sony_0\n0,0,0\n", "line 2 has 3 values; allowed: 2"),
        ("samsung_0,sonny_0\n0,0\n", "line 1, column 2: Unknown agent 'sonny_0'. Did you mean"),
        ("samsung_0,\n0,0\n", "line 1, column 2: Unknown agent ''"),
        ("samsung_0,samsung_0\n0,0\n", "line 1, column 2: agent 'samsung_0' is named twice"),
        ("samsung_0\n0\n", "line 1: no column for sony_0; given samsung_0"),
        (b"\xff\xfe0,0\n", "cannot be read as CSV in UTF-8"),
    ],
)
def test_errors_name_the_place(write, text, message):
    with pytest.raises(ValueError, match=message):
        read_series(write(text), ["samsung_0", "sony_0"])


def test_files_that_cannot_be_read_are_named(write, tmp_path, monkeypatch):
    with pytest.raises(ValueError, match="line 1, column 2: agent 'a' is named twice"):
        read_series(write("a,a\n0,0\n"))  # without agents too
    with pytest.raises(FileNotFoundError, match=r"no file .*nowhere.csv to read"):
        read_series(tmp_path / "nowhere.csv")
    for other in (tmp_path, "/dev/zero"):
        with pytest.raises(ValueError, match=f"{other} is not a file"):
            read_series(other)
    monkeypatch.setattr("coopbench.theory.series._LARGEST", 5)
    with pytest.raises(ValueError, match="larger than 5 bytes"):
        read_series(write("a,b\n0,0\n"))


def test_matching_by_hand():
    """Distances 0.5 / 1, 0 / 0.5, 0.2 / 0.8 and 0.2 / 0.7 over four numbers."""
    series = [[0.0, 0.5], [0.2, 0.7]]
    played = [[0.5, 0.5], [0.0, 0.9]]
    assert series_matching(played, series) == pytest.approx(1 - (0.5 + 0.25 + 2 / 7) / 4)
    assert series_matching(series, series) == 1.0
    assert series_matching([[1.0, 0.0]], [[0.0, 1.0]]) == 0.0


@pytest.mark.parametrize("shape", [(2, 2), (3, 1), (3,), (0, 2)])
def test_different_lengths_are_named(shape):
    with pytest.raises(ValueError, match=r"given \(3, 2\) and \("):
        series_matching(np.zeros((3, 2)), np.zeros(shape))
    with pytest.raises(ValueError, match=r"given \(0, 2\) and \(0, 2\)"):
        series_matching(np.zeros((0, 2)), np.zeros((0, 2)))


def test_match_plays_in_all_seats(write):
    """Constants by hand: the same in every episode and as long as the series."""
    file = write(MADE_UP)
    scores = match("SLCD-v1", file, ["constant:0.5", "random"], episodes=4, seed=3, trembles=0.0)
    assert list(scores) == ["constant:0.5", "random"]
    by_hand = 1 - (0 + 0.5 + 0.25 / 0.75 + 0.5 + 0.5 + 0.25 / 0.75) / 6
    assert scores["constant:0.5"] == pytest.approx([by_hand] * 4)
    assert len(set(scores["random"])) == 4
    later = match("SLCD-v1", file, ["random"], episodes=3, seed=4, trembles=0.0)
    assert later["random"].tolist() == scores["random"][1:].tolist()
    units = match("SLCD-v0", file, ["constant:0.5"], episodes=1)  # of 100, the same fraction
    assert units["constant:0.5"] == pytest.approx([by_hand])


def test_match_refuses_what_it_cannot_score(write, tmp_path):
    file = write(MADE_UP)
    with pytest.raises(ValueError, match=r"mine.csv has 3 steps; given a horizon of 5"):
        match("SLCD-v1", file, ["random"], horizon=5)
    with pytest.raises(ValueError, match="Unknown agent 'samsung_0'"):
        match("RenaultNissan-v1", file, ["random"])
    with pytest.raises(ValueError, match="Routing-v0 has no investments"):
        match("Routing-v0", file, ["random"])
    for wrong in ({"episodes": 0}, {"seed": -1}):
        with pytest.raises(ValueError, match="episodes must be >= 1 and seed >= 0"):
            match("SLCD-v1", file, ["random"], **wrong)
    long = write("firm_0,firm_1\n" + "0.5,0.5\n" * 9)
    with pytest.raises(ValueError, match=r"seeded 2 of 'constant:0.0' ended after 3 steps.* has 9"):
        match("TrustDilemma-v0", long, ["constant:0.0"], seed=2)


def test_the_command(write, command):
    write(MADE_UP)
    call = ["match", "SLCD-v1", "--data", "mine.csv", "-p", "constant:0.5", "-p", "random"]
    call += ["--param", "trembles=0"]
    first, second, last = command(*call, "--episodes", 5).out.splitlines()
    assert first.startswith("constant:0.5")
    assert "series matching 0.6389, 95 % t interval 0.6389 to 0.6389 (all values" in first
    assert second.startswith("random")
    assert last.startswith("5 episodes")
    short = command(*call, "--param", "horizon=4", status=2)
    assert "mine.csv has 3 steps; given a horizon of 4" in short.message
    lost = command("match", "SLCD-v1", "--data", "no.csv", "-p", "random", status=2)
    assert "There is no file no.csv" in lost.message

"""Faults on purpose, of ``studies.checks.mutants``: they fit the sources, in every room."""

from collections import Counter

import pytest

from studies.checks import mutants
from studies.checks.folders import ROOT, sources
from studies.checks.structure import place


def test_every_fault_fits_its_source_and_every_room_has_some():
    entries = mutants.mutants()  # raises for a text that does not stand exactly once in its file
    counts = Counter(entry.room for entry in entries)
    rooms = {".".join(filter(None, place(module))) for module in sources()}
    few = {room for room in rooms if counts[room] < mutants.PER_ROOM}
    assert few == set(mutants.content()["excused"])
    assert len(entries) >= mutants.FEWEST
    assert set(counts) == set(mutants.files_of_rooms(ROOT / "tests"))


def test_a_text_that_has_moved_is_named(monkeypatch):
    entry = {"name": "old", "fault": "none", "file": "setup.py", "text": "x y", "replacement": ""}
    monkeypatch.setattr(mutants, "content", lambda: {"mutant": [entry]})
    with pytest.raises(ValueError, match="old: its text stands 0 times in"):
        mutants.mutants()

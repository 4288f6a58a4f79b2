"""Sections of a report: each is its file and one line, and other packages add theirs."""

from dataclasses import dataclass

import builders
import numpy as np
import pytest

import coopbench
from coopbench.analysis.findings import Part
from coopbench.analysis.rows import ReportRow
from coopbench.episodes.table import Cell, EpisodeTable
from coopbench.protocol.report import Reproduction
from coopbench.report import sections
from coopbench.report.loading import report_of
from coopbench.report.markdown import as_markdown
from coopbench.report.report import Report
from coopbench.report.section import ReportSection
from coopbench.report.serialise import contents, tables_as_csv
from coopbench.report.tables.model import Column, Entry, Group, Table


@dataclass(frozen=True, eq=False)
class Longest(ReportRow):
    """The longest episode of a policy."""

    policy: str
    steps: int


def longest(protocol, table) -> tuple[Longest, ...]:
    """Find the longest episode of every policy."""
    return tuple(Longest(block.cell.policy, int(block.lengths.max())) for block in table)


def shown(findings):
    body = tuple((Entry(row.policy), Entry(str(row.steps))) for row in findings.rows(LONGEST))
    columns = Column("Policy", "who", numeric=False), Column("Steps", "of its longest episode")
    return Table("Longest episodes", columns, (Group("", "", body),), "episodes")


LONGEST = Part("longest", longest)


@pytest.fixture
def report(tmp_path):
    blocks = [builders.make_block(Cell("dilemma", name), np.zeros((4, 2))) for name in "ab"]
    return Report(builders.small_protocol(tmp_path), EpisodeTable(tuple(blocks)))


def test_a_section_of_another_package_appears_in_every_format(report, monkeypatch):
    theirs = {"longest": ReportSection((LONGEST,), {"overall": shown})}
    monkeypatch.setattr(sections, "installed", lambda group, kind, taken: theirs)
    sections.sections.cache_clear()
    try:
        assert "Longest episodes" in as_markdown(report.document)
        assert tables_as_csv(report)["longest"].splitlines()[0] == "policy,steps"
        assert contents(report)["longest"][1]["policy"] == "b"
        assert list(report.to_frame("longest").policy) == ["a", "b"]
        assert report.longest == report.rows(LONGEST)
    finally:
        sections.sections.cache_clear()


@pytest.mark.parametrize("name", sections.sections())
def test_a_report_without_a_section_has_everything_else(report, monkeypatch, name):
    before, own = tables_as_csv(report), sections.sections()[name].parts
    others = {key: one for key, one in sections.sections().items() if key != name}
    monkeypatch.setattr(sections, "sections", lambda: others)
    bare = Report(report.protocol, report.episodes)
    lost = {part.name for part in own}
    assert tables_as_csv(bare) == {key: text for key, text in before.items() if key not in lost}
    assert as_markdown(bare.document)


def test_a_report_names_the_sections_that_are_not_installed(tmp_path):
    whole = builders.small_protocol(tmp_path)
    asks = whole.report.model_copy(update={"reproduces": Reproduction(theirs=True, anarchy=True)})
    notes = report_of(whole.model_copy(update={"report": asks}), [], []).notes
    assert notes == ("Sections that are not installed here are missing: theirs.",)


def test_a_name_that_is_no_part_is_an_error(report):
    with pytest.raises(AttributeError, match="no attribute or part 'nothing'"):
        report.nothing  # noqa: B018


@pytest.mark.parametrize("name", coopbench.protocol_names())
def test_protocols_ask_for_nothing_that_no_section_gives(name):
    protocol = coopbench.load_protocol(name)
    assert all(sections.asked(protocol).values())
    assert protocol.report.reproduces.sections.keys() <= sections.sections().keys()


@pytest.mark.parametrize("key", ["standard", "cards", "agents"])
def test_a_section_writes_to_no_other_key_of_the_file(report, monkeypatch, key):
    theirs = ReportSection(json={key: lambda findings: True})
    both = sections.sections() | {"theirs": theirs}
    monkeypatch.setattr(sections, "sections", lambda: both)
    with pytest.raises(ValueError, match=f"{key}.* to report.json"):
        contents(report)


def test_two_parts_of_one_name_are_refused(monkeypatch):
    """Each is a CSV file: the second would replace the first."""
    theirs = ReportSection((Part("agents", longest),))
    both = sections.sections() | {"theirs": theirs}
    monkeypatch.setattr(sections, "sections", lambda: both)
    with pytest.raises(ValueError, match=r"'agents' of the section 'theirs' .* section 'agents'"):
        sections.parts()

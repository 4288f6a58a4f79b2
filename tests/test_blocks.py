"""Every format renders every kind of block, and writes names as they are."""

import html

import pytest

from coopbench.report.blocks import (
    ALWAYS,
    FILES,
    PAGE,
    Code,
    Deferred,
    Details,
    Document,
    Facts,
    Items,
    Pictures,
    Player,
    Row,
    Section,
    Text,
    Verdict,
)
from coopbench.report.latex import as_latex
from coopbench.report.markdown import as_markdown, escaped
from coopbench.report.page import as_html, as_notebook
from coopbench.report.plots.drawing import IntervalChart
from coopbench.report.plots.style import Picture, styles
from coopbench.report.tables.model import Column, Entry, Footnotes, Group, Table
from coopbench.report.terminal import as_text

NASTY = "a|b & <i>*_[bold]"


def table(title):
    notes = Footnotes()
    rows = (
        (
            Entry(NASTY, NASTY),
            Entry("-1.5", -1.5, strong=True),
            Entry("-2 to -1", 1.0, notes.mark("few episodes")),
        ),
    )
    columns = (
        Column("Policy", "who plays", numeric=False),
        Column("Mean", "over episodes"),
        Column("95 % interval", "of the mean"),
    )
    return Table(title, columns, (Group("group", "its meaning", rows),), "Unit.", notes.all())


@pytest.fixture(scope="module")
def document():
    folded = Details("closed", (Text("hidden text"),), "task")
    unfolded = Details("open one", (Text("visible text"),), open=True)
    picture = Picture("drawing", "caption of it", lambda: IntervalChart((), "", ""))
    beware = Text("beware", warning=True)
    played = Deferred(lambda: (Player("<p>player</p>"),))
    return Document(
        NASTY,
        (
            Verdict("Not a standard report", ("edited",), warning=True),
            Facts({"A label": "known thing"}),
            table("First table"),
            Section(
                "Shown",
                (Row((table("Second table"), Pictures((picture,)))), folded, unfolded),
                "shown",
                ALWAYS,
            ),
            Section("In files", (Items(("an item",)), beware), "files", FILES),
            Section("On a page", (played, Code("x < 1")), "page", PAGE),
        ),
        looks=styles([NASTY]),
        footer="The end",
    )


SHOWN = ["edited", "A label", "known thing", "First table", "Shown", "Second table", "visible text"]
IN_FILES = ["hidden text", "In files", "an item", "beware"]


def test_the_page_has_everything_in_order(document):
    text = as_html(document)
    order = [*SHOWN[:6], "<svg", "caption of it", "hidden text", "visible text", *IN_FILES[1:]]
    places = [text.index(words, text.index("<body>")) for words in SHOWN[:4]]
    assert places == sorted(places)
    main = text[text.index("<main>") :]
    places = [main.index(words) for words in (*order[4:], "player", "x &lt; 1", "The end")]
    assert places == sorted(places)
    for anchor in ("shown", "files", "page"):
        assert f'href="#{anchor}"' in text
        assert f'<section id="{anchor}">' in text
    assert html.escape(NASTY) in text
    assert NASTY not in text
    assert '<details class="task">' in text
    assert "<details open>" in text
    assert '<p class="warning">beware</p>' in text


def test_markdown_has_all_but_what_only_a_page_shows(document):
    text = as_markdown(document)
    for words in (*SHOWN, *IN_FILES, "![caption of it](plots/drawing.svg)"):
        assert words in text
    assert "On a page" not in text
    assert "| a\\|b \\& \\<i\\>\\*\\_\\[bold\\] | **-1.5** | -2 to -1 (a) |" in text
    assert "(a) few episodes" in text
    assert escaped("~~R&amp;D~~") == r"\~\~R\&amp;D\~\~"


def test_a_terminal_leaves_out_what_is_folded_or_in_files(document):
    text = as_text(document, 100)
    for words in (*SHOWN, NASTY, "The report's files hold"):
        assert words in text
    assert not any(words in text for words in (*IN_FILES, "On a page", "caption"))


def test_a_notebook_has_the_verdict_and_first_tables(document):
    text = as_notebook(document)
    assert "edited" in text
    assert "Second table" in text
    assert "visible" not in text


def test_latex_has_the_tables_and_comments(document):
    text = as_latex(document)
    assert "% A label: known thing" in text
    assert "% - edited" in text
    assert text.count(r"\begin{table}") == 1
    assert r"a\textbar{}b \& \textless{}i\textgreater{}*\_[bold] & \textbf{$-$1.5} \\" in text
    assert r"{\scriptsize $-$2 to $-$1 (a)} \\[2pt]" in text
    assert "(a) few episodes. group: its meaning. Unit. The end}" in text

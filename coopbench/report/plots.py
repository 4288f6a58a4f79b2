"""Plots of a report: intervals and curves, drawn on given axes without any global state.

Colours are those of Okabe and Ito (2008) that can be told apart with colour-blindness; marker and
line style repeat the distinction for print in grey. A policy looks the same in all plots.
"""

import io
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from coopbench.report.formats import Scale, is_point, scale_of
from coopbench.report.tables import policies

if TYPE_CHECKING:
    from coopbench.report.report import Report

__all__ = ["Picture", "Style", "aggregate", "curves", "pictures", "scores", "styles"]

# Without the yellow, which is too pale on paper. Seven colours, five lines and nine markers have no
# common divisor, so that no combination returns before all have been used.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
LINES: tuple[Any, ...] = (
    "-",
    (0, (4, 1.5)),
    (0, (1.2, 1.2)),
    (0, (6, 1.5, 1.2, 1.5)),
    (0, (7, 4)),
)
MARKERS = {"o": "●", "s": "■", "^": "▲", "D": "◆", "v": "▼", "P": "✚", "X": "✖", "<": "◀", ">": "▶"}
WIDTH = 4.8  # inches: text of 9 points stays legible when the plot is as wide as a phone
INK, FAINT, SMALL = "#222222", "#d0d0d0", 9
_LONGEST = 26  # characters of a policy's name in a plot


@dataclass(frozen=True)
class Style:
    """How a policy looks in every plot of a report; ``glyph`` is its marker as a character."""

    colour: str
    marker: str
    line: Any
    glyph: str


@dataclass(frozen=True)
class Picture:
    """A drawn plot; ``task`` is None for one over all tasks."""

    name: str  # of its files, without the ending
    task: str | None
    caption: str
    svg: str
    png: bytes


def styles(names: Sequence[str]) -> dict[str, Style]:
    """Give every policy its colour, marker and line, by its place in the report."""
    shapes = list(MARKERS.items())
    return {
        name: Style(
            COLOURS[k % len(COLOURS)],
            shapes[k % len(shapes)][0],
            LINES[k % len(LINES)],
            shapes[k % len(shapes)][1],
        )
        for k, name in enumerate(names)
    }


def aggregate(report: "Report", ax: Any = None) -> Any:
    """Draw the interquartile mean of every policy over all tasks; return the axes.

    The axis shows normalised scores; 0 and 1 are the bounds of the protocol.
    """
    found = {row.policy: (row.estimate, row.low, row.high) for row in report.aggregates}
    ax = ax if ax is not None else _axes(_height(len(policies(report))))
    _intervals(ax, report, found)
    reach = [value for row in found.values() for value in row if math.isfinite(value)]
    low, high = min([0.0, *reach]), max([1.0, *reach])
    ax.set_xlim(low - 0.03 * (high - low), high + 0.03 * (high - low))
    ax.set_xlabel(f"IQM of normalised {_plain(report.protocol.report.score)}", fontsize=SMALL)
    return ax


def scores(report: "Report", task: str, ax: Any = None) -> Any:
    """Draw mean and interval of the score of every policy on ``task``; return the axes."""
    score = report.protocol.report.score
    found = {
        row.policy: (row.mean, row.low, row.high)
        for row in report.estimates
        if (row.task, row.metric) == (task, score)
    }
    ax = ax if ax is not None else _axes(_height(len(policies(report))))
    _intervals(ax, report, found)
    ax.set_xlabel(_plain(score), fontsize=SMALL)
    ax.set_title(task, loc="left", fontsize=SMALL)
    return ax


def curves(report: "Report", task: str, ax: Any = None) -> Any:
    """Draw the course of the protocol's curve metric over an episode; return the axes.

    x is the step, y the metric so far, mean over episodes. A curve ends with its last episode.
    """
    metric = report.protocol.report.curve
    blocks = [block for block in report.episodes if block.cell.task == task]
    looks = styles(policies(report))
    ax = ax if ax is not None else _axes(2.6 + 0.17 * math.ceil(len(looks) / _columns(looks)))
    _frame(ax)
    for k, block in enumerate(blocks):
        values = block.curves.get(metric)
        if values is None or len(values) < 2:
            continue
        look = looks[block.cell.policy]
        # Equal curves lie on each other: thinner on top of thicker, markers at different steps.
        stride = max(1, (len(values) - 1) // 6)
        ax.plot(
            range(1, len(values)),
            values[1:],
            color=look.colour,
            linestyle=look.line,
            linewidth=2.4 - 0.8 * k / max(1, len(blocks) - 1),
            marker=look.marker,
            markersize=4.5,
            markevery=(k * stride // max(1, len(blocks)), stride),
            label=_plain(block.cell.policy),
        )
    _finish_curves(ax, metric, task, _columns(looks))
    return ax


def _columns(names: Iterable[str]) -> int:
    """Columns of a legend that is no wider than its plot."""
    return 2 if max((len(name) for name in names), default=0) <= 18 else 1


def _finish_curves(ax: Any, metric: str, task: str, columns: int) -> None:
    from matplotlib.transforms import ScaledTranslation

    values = [value for line in ax.lines for value in line.get_ydata() if math.isfinite(value)]
    if values and min(values) >= 0.0 and max(values) <= 1.0:
        ax.set_ylim(-0.03, 1.03)  # a share: the whole range, so that tasks can be compared
    ax.set_xlim(left=-0.015 * ax.get_xlim()[1])  # room for the marker at step 1
    ax.set_xlabel("step", fontsize=SMALL)
    ax.set_title(task, loc="left", fontsize=SMALL)
    ax.set_ylabel(f"{_plain(metric)} so far", fontsize=SMALL)
    if not ax.lines:
        return
    below = ax.transAxes + ScaledTranslation(0, -32 / 72, ax.figure.dpi_scale_trans)
    ax.legend(
        loc="upper left",
        bbox_to_anchor=(0, 0),
        bbox_transform=below,
        ncols=columns,
        frameon=False,
        fontsize=SMALL,
        handlelength=3.2,
        borderaxespad=0,
    )


def _intervals(ax: Any, report: "Report", found: dict[str, tuple[float, float, float]]) -> None:
    """Draw one row per policy; an open marker where there is no interval, a word where no value."""
    from matplotlib.ticker import MaxNLocator

    names = policies(report)
    looks, scale = styles(names), _value_scale(found)
    _frame(ax)
    for y, name in enumerate(names):
        row = found.get(name, (math.nan,) * 3)
        if math.isfinite(row[0]):
            _interval(ax, y, row, looks[name], _plain(name))
    _values(ax, [scale(found[name][0]) if name in found else "missing" for name in names])
    ax.set_yticks(range(len(names)), [_plain(name) for name in names], fontsize=SMALL)
    ax.set_ylim(len(names) - 0.4, -0.6)
    ax.tick_params(axis="y", length=0)
    ax.grid(axis="y", visible=False)
    ax.xaxis.set_major_locator(MaxNLocator(5))


def _interval(ax: Any, y: int, row: tuple[float, float, float], look: Style, label: str) -> None:
    centre, low, high = row
    known = _is_known(low, high)
    if known:
        ax.plot([low, high], [y, y], color=look.colour, linewidth=2, solid_capstyle="butt")
        for end in (low, high):  # higher than the marker, so that narrow intervals are seen
            ax.plot([end, end], [y - 0.3, y + 0.3], color=look.colour, linewidth=1.2)
    ax.plot(
        [centre],
        [y],
        linestyle="none",
        marker=look.marker,
        markersize=6,
        markeredgewidth=1.5,
        color=look.colour,
        markerfacecolor=look.colour if known else "white",
        label=label,
        zorder=3,
    )


def _is_known(low: float, high: float) -> bool:
    """Whether there is an interval to draw."""
    return math.isfinite(low) and math.isfinite(high) and not is_point(low, high)


def _values(ax: Any, texts: Sequence[str]) -> None:
    """Write the numbers beside the plot, flush right."""
    digit = 0.62 * SMALL  # points
    reach = 6 + digit * max((len(text.replace(",", "")) for text in texts), default=0)
    for y, text in enumerate(texts):
        ax.annotate(
            text,
            (1, y),
            xytext=(reach, 0),
            xycoords=("axes fraction", "data"),
            textcoords="offset points",
            ha="right",
            va="center",
            fontsize=SMALL,
            color=INK,
        )


def _value_scale(found: dict[str, tuple[float, float, float]]) -> Scale:
    rows = found.values()
    return scale_of([row[0] for row in rows], [(row[2] - row[1]) / 2 for row in rows])


def _axes(height: float) -> Any:
    """Axes of a new figure that pyplot does not know."""
    from matplotlib.figure import Figure

    return Figure(figsize=(WIDTH, height), layout="constrained").add_subplot()


def _height(rows: int) -> float:
    return 0.85 + 0.27 * rows


def _frame(ax: Any) -> None:
    """Take away what carries no data."""
    for side in ("top", "right", "left"):
        ax.spines[side].set_visible(False)
    ax.spines["bottom"].set_color(INK)
    ax.grid(color=FAINT, linewidth=0.6)
    ax.set_axisbelow(True)
    ax.tick_params(labelsize=SMALL, color=FAINT, labelcolor=INK)
    ax.xaxis.set_major_formatter(lambda value, _: f"{value:,.8g}")


def _plain(text: str) -> str:
    """A name as it is: no formulas, no hidden legend entries, not longer than a plot can take."""
    short = text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
    short = short.replace("$", r"\$")
    return f" {short}" if short.startswith("_") else short


# --- files ---------------------------------------------------------------------------------------


def pictures(report: "Report") -> tuple[Picture, ...]:
    """Draw all plots of a report: the aggregate, then score and curves of every task."""
    level = f"{100 * report.protocol.report.confidence:g} %"
    found = []
    if report.aggregates:
        caption = f"Interquartile mean of normalised scores with {level} interval."
        caption += _open_markers(report.aggregates)
        found.append(_picture("iqm", None, caption, aggregate(report)))
    score, metric = report.protocol.report.score, report.protocol.report.curve
    for task in report.protocol.task:
        rows = [row for row in report.estimates if (row.task, row.metric) == (task.id, score)]
        caption = f"Mean {score} with {level} interval." + _open_markers(rows)
        found.append(_picture(f"score-{task.id}", task.id, caption, scores(report, task.id)))
        caption = (
            f"Course of {metric} over an episode: its value so far, mean over episodes. "
            "A curve ends where its last episode does."
        )
        found.append(_picture(f"curve-{task.id}", task.id, caption, curves(report, task.id)))
    return tuple(found)


def _open_markers(rows: Sequence[Any]) -> str:
    """What an open marker means, if there is one."""
    if all(_is_known(row.low, row.high) for row in rows):
        return ""
    return " Open markers: no interval, or one without width; the table says why."


def _picture(name: str, task: str | None, caption: str, ax: Any) -> Picture:
    """Write a figure in both formats; the same figure gives the same bytes."""
    from matplotlib import rc_context

    vector, pixels = io.StringIO(), io.BytesIO()
    nothing = {"Creator": None, "Date": None, "Format": None, "Type": None}
    with rc_context({"svg.hashsalt": name, "svg.fonttype": "none", "path.simplify": True}):
        ax.figure.savefig(vector, format="svg", metadata=nothing)
    ax.figure.savefig(pixels, format="png", dpi=200, metadata={"Software": None})
    return Picture(name, task, caption, _slim(vector.getvalue(), name), pixels.getvalue())


def _slim(svg: str, name: str) -> str:
    """Drop prolog, metadata and unused names from an SVG; make the others unique to it."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>\s*", "", svg, flags=re.DOTALL)
    used = set(re.findall(r"(?:url\(#|href=\"#)([^\")]+)", svg))
    svg = re.sub(r' id="([^"]*)"', lambda m: m[0] if m[1] in used else "", svg)
    for old in sorted(used):
        svg = svg.replace(f'id="{old}"', f'id="{name}-{old}"')
        svg = svg.replace(f"url(#{old})", f"url(#{name}-{old})")
        svg = svg.replace(f'href="#{old}"', f'href="#{name}-{old}"')
    return svg

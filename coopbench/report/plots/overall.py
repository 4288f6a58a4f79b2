"""Plots of a report: intervals and curves, drawn on given axes without any global state.

Colours are those of Okabe and Ito (2008) that can be told apart with colour-blindness; marker and
line style repeat the distinction for print in grey. A policy looks the same in all plots.
"""

import io
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from coopbench.analysis.aggregates import Aggregate
from coopbench.analysis.findings import Findings
from coopbench.analysis.rankings import Improvement
from coopbench.protocol.sections import Chart, Task
from coopbench.report.numbers import Scale, is_point, scale_of
from coopbench.report.tables.overall import policies
from coopbench_envs.parameters import named

if TYPE_CHECKING:
    from coopbench.workflows.crossplay import CrossPlay

__all__ = [
    "Picture",
    "Style",
    "aggregate",
    "chart",
    "curves",
    "frame",
    "heat_map",
    "improvements",
    "legend",
    "legend_columns",
    "new_axes",
    "picture",
    "pictures",
    "plain",
    "profiles",
    "scores",
    "share_limits",
    "styles",
    "svg",
]

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
BAND = 0.12  # opacity
PAIRS = 12  # of policies, in one plot
LABELS = {
    "iqm": "IQM of",
    "optimality_gap": "optimality gap of",
    "mean": "mean of",
    "median": "median over tasks of",
}
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
    """A drawn plot; ``task`` is None for one over several tasks."""

    name: str  # of its files, without the ending
    task: str | None
    caption: str
    svg: str
    png: bytes
    kind: str = ""  # "chart": shown among the charts


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


def aggregate(
    findings: Findings, ax: Any = None, group: str | None = None, statistic: str = "iqm"
) -> Any:
    """Draw a statistic of every policy over the tasks of a group; return the axes.

    The group is the protocol's first unless it is named; ``statistic`` is "iqm", "optimality_gap",
    "mean" or "median". The axis shows normalised scores from 0 to 1 at least.
    """
    names = tuple(findings.protocol.groups)
    group = names[0] if group is None else group
    named("group", group, findings.protocol.groups)
    named("statistic", statistic, LABELS)
    found = {
        row.policy: (row.estimate, row.low, row.high)
        for row in findings.aggregates
        if (row.group, row.statistic) == (group, statistic)
    }
    ax = ax if ax is not None else new_axes(_height(len(policies(findings))))
    _intervals(ax, findings, found)
    reach = [value for row in found.values() for value in row if math.isfinite(value)]
    low, high = min([0.0, *reach]), max([1.0, *reach])
    ax.set_xlim(low - 0.03 * (high - low), high + 0.03 * (high - low))
    label = f"{LABELS[statistic]} normalised {plain(findings.protocol.report.score)}"
    ax.set_xlabel(label, fontsize=SMALL)
    if len(names) > 1:
        ax.set_title(group, loc="left", fontsize=SMALL)
    return ax


def profiles(findings: Findings, group: str, ax: Any = None) -> Any:
    """Draw the performance profiles of all policies in a group; return the axes.

    x is a normalised score, y the share of scores above it with its pointwise band.
    """
    named("group", group, findings.protocol.groups)
    found: dict[str, list[Any]] = {}
    for point in findings.profiles:
        if point.group == group:
            found.setdefault(point.policy, []).append(point)
    looks, lines = styles(policies(findings)), math.ceil(len(found) / legend_columns(found))
    ax = ax if ax is not None else new_axes(2.6 + 0.17 * lines)
    frame(ax)
    for k, (policy, rows) in enumerate(found.items()):
        look, at = looks[policy], [row.threshold for row in rows]
        low, high = [row.low for row in rows], [row.high for row in rows]
        ax.fill_between(at, low, high, color=look.colour, alpha=BAND, linewidth=0)
        stride = max(1, len(rows) // 6)
        ax.plot(
            at,
            [row.estimate for row in rows],
            color=look.colour,
            linestyle=look.line,
            linewidth=2.4 - 0.8 * k / max(1, len(found) - 1),  # thinner on top of thicker
            marker=look.marker,
            markersize=4.5,
            markevery=(k * stride // len(found), stride),
            label=plain(policy),
        )
    ax.set_ylim(-0.03, 1.03)
    ax.set_xlabel(f"normalised {plain(findings.protocol.report.score)}", fontsize=SMALL)
    ax.set_ylabel("share of scores above", fontsize=SMALL)
    ax.set_title(group or "all tasks", loc="left", fontsize=SMALL)
    legend(ax, legend_columns(found))
    return ax


def improvements(findings: Findings, group: str, ax: Any = None) -> Any:
    """Draw the probability of improvement of the pairs of policies in a group; return the axes.

    Of more than twelve pairs only those with the best policy by IQM are drawn.
    """
    named("group", group, findings.protocol.groups)
    rows, looks = _improvements(findings, group), styles(policies(findings))
    common = len({row.first for row in rows}) == 1 and len(rows) > 1
    ax = ax if ax is not None else new_axes(0.85 + (0.27 if common else 0.4) * max(1, len(rows)))
    frame(ax)
    ax.axvline(0.5, color=INK, linewidth=1, linestyle=(0, (4, 3)))
    for y, row in enumerate(rows):
        look = looks[row.second if common else row.first]
        _interval(ax, y, (row.estimate, row.low, row.high), look, "_")
    _values(ax, [f"{row.estimate:.2f}" for row in rows])
    names = [
        plain(row.second) if common else f"{plain(row.first)}\nover {plain(row.second)}"
        for row in rows
    ]
    ax.set_yticks(range(len(rows)), names, fontsize=SMALL)
    ax.set_ylim(len(rows) - 0.4, -0.6)
    ax.set_xlim(-0.03, 1.03)
    ax.tick_params(axis="y", length=0)
    ax.grid(axis="y", visible=False)
    who = f"{plain(rows[0].first)}\n" if common else "the first "
    ax.set_xlabel(f"chance that {who}scores higher", fontsize=SMALL)
    ax.set_title(group or "all tasks", loc="left", fontsize=SMALL)
    return ax


def _improvements(findings: Findings, group: str) -> list[Improvement]:
    """Pairs to draw: all, or if they are many those with the best policy of their unit."""
    rows = [r for r in findings.improvements if r.group == group and math.isfinite(r.estimate)]
    if len(rows) <= PAIRS:
        return rows
    best: dict[str, Aggregate] = {}
    for each in findings.aggregates:
        if (each.group, each.statistic) == (group, "iqm"):
            ahead = best.setdefault(each.unit, each)
            best[each.unit] = each if each.estimate > ahead.estimate else ahead
    turned = [r if r.first == best[r.unit].policy else _turned(r) for r in rows]
    return [row for row in turned if row.first == best[row.unit].policy]


def _turned(row: Improvement) -> Improvement:
    """The same pair seen from the second."""
    return replace(
        row,
        first=row.second,
        second=row.first,
        estimate=1.0 - row.estimate,
        low=1.0 - row.high,
        high=1.0 - row.low,
    )


def scores(findings: Findings, task: str, ax: Any = None) -> Any:
    """Draw mean and interval of the score of every policy on ``task``; return the axes."""
    score = findings.protocol.report.score
    found = {
        row.policy: (row.mean, row.low, row.high)
        for row in findings.estimates
        if (row.task, row.metric) == (task, score)
    }
    ax = ax if ax is not None else new_axes(_height(len(policies(findings))))
    _intervals(ax, findings, found)
    ax.set_xlabel(plain(score), fontsize=SMALL)
    ax.set_title(task, loc="left", fontsize=SMALL)
    return ax


def curves(findings: Findings, task: str, ax: Any = None) -> Any:
    """Draw the course of the protocol's curve metric over an episode; return the axes.

    x is the step, y the metric so far, mean over episodes and, of a learned policy, over its runs.
    A curve ends with its last episode.
    """
    metric = findings.protocol.curve_of(findings.protocol.task_of(task))
    played = [policy for name, policy in findings.episodes.pairs if name == task]
    looks = styles(policies(findings))
    lines = math.ceil(len(looks) / legend_columns(looks))
    ax = ax if ax is not None else new_axes(2.6 + 0.17 * lines)
    frame(ax)
    for k, policy in enumerate(played):
        values = _mean_course([b.curves.get(metric) for b in findings.episodes.runs(task, policy)])
        if len(values) < 2:
            continue
        look = looks[policy]
        # Equal curves lie on each other: thinner on top of thicker, markers at different steps.
        stride = max(1, (len(values) - 1) // 6)
        ax.plot(
            range(1, len(values)),
            values[1:],
            color=look.colour,
            linestyle=look.line,
            linewidth=2.4 - 0.8 * k / max(1, len(played) - 1),
            marker=look.marker,
            markersize=4.5,
            markevery=(k * stride // max(1, len(played)), stride),
            label=plain(policy),
        )
    _finish_curves(ax, metric, task, legend_columns(looks))
    return ax


def _mean_course(courses: Sequence[np.ndarray | None]) -> np.ndarray:
    """Mean over runs of the course of a metric; one that has ended counts with its last value."""
    there = [course for course in courses if course is not None and len(course)]
    longest = max(map(len, there), default=0)
    padded = [np.pad(course, (0, longest - len(course)), mode="edge") for course in there]
    return np.mean(padded, axis=0) if padded else np.empty(0)


def chart(findings: Findings, name: str, ax: Any = None) -> Any:
    """Draw a chart of the protocol, one line per policy with its band; return the axes.

    ``name`` is that of the picture, as in ``report.charts``.
    """
    points = [point for point in findings.charts if point.chart == name]
    asked, panel = _asked(findings)[name]
    names, looks = policies(findings), styles(policies(findings))
    lines = dict.fromkeys(point.policy for point in points)
    depth = math.ceil(len(lines) / legend_columns(lines))
    ax = ax if ax is not None else new_axes(2.6 + 0.17 * depth)
    frame(ax)
    for k, line in enumerate(lines):
        rows = sorted((p for p in points if p.policy == line), key=lambda point: point.at)
        model = next(each for each in names if findings.protocol.family(each)[0] == line)
        width = 2.4 - 0.8 * k / max(1, len(lines) - 1)  # thinner on top of thicker
        _line(ax, rows, looks[model], width, plain(line))
    _finish_chart(ax, asked, panel, legend_columns(lines))
    return ax


def _asked(findings: Findings) -> dict[str, tuple[Chart, tuple[Task, ...]]]:
    """Charts of the protocol by the names of their pictures, with the tasks of each."""
    return {
        name: (each, panel)
        for each in findings.protocol.report.chart
        for name, panel in each.panels(findings.protocol.task).items()
    }


def _line(ax: Any, rows: Sequence[Any], look: Style, width: float, label: str) -> None:
    at = [row.at for row in rows]
    low, high = [row.low for row in rows], [row.high for row in rows]
    ax.fill_between(at, low, high, color=look.colour, alpha=0.18, linewidth=0)
    ax.plot(
        at,
        [row.estimate for row in rows],
        color=look.colour,
        linestyle=look.line,
        linewidth=width,
        marker=look.marker,
        markersize=5,
        label=label,
    )


def _finish_chart(ax: Any, asked: Chart, panel: Sequence[Task], columns: int) -> None:
    places = sorted({task.axes[asked.x] for task in panel})
    if asked.scale == "log2":
        ax.set_xscale("log", base=2)
    ax.set_xticks(places, [f"{place:g}" for place in places])
    ax.minorticks_off()
    per = f"{asked.per} = {panel[0].axes[asked.per]:g}" if asked.per else ""
    title = ", ".join(filter(None, (asked.group, per))) or "all tasks"
    ax.set_title(title, loc="left", fontsize=SMALL)
    ax.set_xlabel(plain(asked.x), fontsize=SMALL)
    ax.set_ylabel(f"IQM of {plain(asked.metric)}", fontsize=SMALL)
    ax.yaxis.set_major_formatter(lambda value, _: f"{value:,.8g}")
    values = [value for line in ax.lines for value in line.get_ydata() if math.isfinite(value)]
    share_limits(ax, values)
    legend(ax, columns)


def heat_map(result: "CrossPlay", task: str, ax: Any = None) -> Any:
    """Draw the mean returns of a cross-play on ``task``, numbers in the cells; return the axes.

    Rows are policies in one seat, columns those in all others; self-play is framed. The colours
    (cividis) run from the lowest to the highest value and look alike to the colour-blind.
    """
    from matplotlib.patches import Rectangle

    names, values = [plain(name) for name in result.policies], result.matrix(task)
    count, longest = len(names), max(len(name) for name in names)
    ax = ax if ax is not None else new_axes(1.2 + 0.36 * count + 0.05 * longest, _map_width(names))
    mesh = ax.pcolormesh(values, cmap="cividis", edgecolors="white", linewidth=1.5)
    scale, look = scale_of(values.ravel(), ()), {"ha": "center", "va": "center", "fontsize": SMALL}
    for (row, column), value in np.ndenumerate(values):
        colour = "white" if mesh.norm(value) < 0.5 else INK
        ax.text(column + 0.5, row + 0.5, scale(value), color=colour, **look)
        if row == column:
            frame = Rectangle((row + 0.05, row + 0.07), 0.9, 0.86, fill=False, color=colour, lw=1.2)
            ax.add_patch(frame)
    ax.set_xticks(np.arange(count) + 0.5, names, rotation=35, ha="right", rotation_mode="anchor")
    ax.set_yticks(np.arange(count) + 0.5, names)
    ax.set_ylim(count, 0)
    ax.tick_params(length=0, labelsize=SMALL, labelcolor=INK)
    ax.spines[:].set_visible(False)
    ax.set_xlabel("in all other seats", fontsize=SMALL)
    ax.set_ylabel("in one seat", fontsize=SMALL)
    ax.set_title(f"{task}: mean return of the one seat", loc="left", fontsize=SMALL)
    return ax


def _map_width(names: Sequence[str]) -> float:
    """Inches for the row names and a cell of seven digits per column."""
    return max(WIDTH, 0.6 + 0.085 * max(len(name) for name in names) + 0.66 * len(names))


def legend_columns(names: Iterable[str]) -> int:
    """Columns of a legend that is no wider than its plot."""
    return 2 if max((len(name) for name in names), default=0) <= 20 else 1


def _finish_curves(ax: Any, metric: str, task: str, columns: int) -> None:
    values = [value for line in ax.lines for value in line.get_ydata() if math.isfinite(value)]
    share_limits(ax, values)
    ax.set_xlim(left=-0.015 * ax.get_xlim()[1])  # room for the marker at step 1
    ax.set_xlabel("step", fontsize=SMALL)
    ax.set_title(task, loc="left", fontsize=SMALL)
    ax.set_ylabel(f"{plain(metric)} so far", fontsize=SMALL)
    legend(ax, columns)


def share_limits(ax: Any, values: Sequence[float]) -> None:
    """Show the whole range of a share, so that plots can be compared."""
    if values and min(values) >= 0.0 and max(values) <= 1.0:
        ax.set_ylim(-0.03, 1.03)


def legend(ax: Any, columns: int) -> None:
    """Name the lines below the plot."""
    from matplotlib.transforms import ScaledTranslation

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


def _intervals(ax: Any, findings: Findings, found: dict[str, tuple[float, float, float]]) -> None:
    """Draw one row per policy; an open marker where there is no interval, a word where no value."""
    from matplotlib.ticker import MaxNLocator

    names = policies(findings)
    looks, scale = styles(names), _value_scale(found)
    frame(ax)
    for y, name in enumerate(names):
        row = found.get(name, (math.nan,) * 3)
        if math.isfinite(row[0]):
            _interval(ax, y, row, looks[name], plain(name))
    _values(ax, [scale(found[name][0]) if name in found else "missing" for name in names])
    ax.set_yticks(range(len(names)), [plain(name) for name in names], fontsize=SMALL)
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


def new_axes(height: float, width: float = WIDTH) -> Any:
    """Axes of a new figure that pyplot does not know."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained").add_subplot()


def _height(rows: int) -> float:
    return 0.85 + 0.27 * rows


def frame(ax: Any) -> None:
    """Take away what carries no data."""
    for side in ("top", "right", "left"):
        ax.spines[side].set_visible(False)
    ax.spines["bottom"].set_color(INK)
    ax.grid(color=FAINT, linewidth=0.6)
    ax.set_axisbelow(True)
    ax.tick_params(labelsize=SMALL, color=FAINT, labelcolor=INK)
    ax.xaxis.set_major_formatter(lambda value, _: f"{value:,.8g}")


def plain(text: str) -> str:
    """A name as it is: no formulas, no hidden legend entries, not longer than a plot can take."""
    short = text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
    short = short.replace("$", r"\$")
    return f" {short}" if short.startswith("_") else short


# --- files ---------------------------------------------------------------------------------------


def pictures(findings: Findings) -> tuple[Picture, ...]:
    """Draw all plots of a report: aggregates, charts, then those of every task."""
    from coopbench.report.plots import learning

    level = f"{100 * findings.protocol.report.confidence:g} %"
    found = _group_pictures(findings, level) + _chart_pictures(findings, level)
    score = findings.protocol.report.score
    for task in findings.protocol.task:
        metric = findings.protocol.curve_of(task)
        rows = [row for row in findings.estimates if (row.task, row.metric) == (task.id, score)]
        caption = f"Mean {score} with {level} interval." + _open_markers(rows)
        found.append(picture(f"score-{task.id}", task.id, caption, scores(findings, task.id)))
        caption = (
            f"Course of {metric} over an episode: its value so far, mean over episodes. "
            "A curve ends where its last episode does."
        )
        found.append(picture(f"curve-{task.id}", task.id, caption, curves(findings, task.id)))
    return (*found, *learning.pictures(findings))


def _group_pictures(findings: Findings, level: str) -> list[Picture]:
    """For every group that anybody finished: aggregates, profiles, probabilities of improvement."""
    found, groups = [], tuple(findings.protocol.groups)
    for group in groups:
        rows = [row for row in findings.aggregates if row.group == group]
        if not rows:
            continue
        end, whose = (f"-{group}", f" of {group}") if len(groups) > 1 else ("", "")
        caption = (
            f"Interquartile mean and optimality gap of normalised scores{whose} with {level} "
            "interval."
            + _open_markers([r for r in rows if r.statistic in ("iqm", "optimality_gap")])
        )
        found.append(picture(f"iqm{end}", None, caption, _both(findings, group)))
        if not any(point.group == group for point in findings.profiles):
            continue
        caption = (
            f"Performance profiles{whose}: share of {_units(rows)} whose normalised score is above "
            f"the threshold, with pointwise {level} band."
        )
        drawn = picture(f"profiles{end}", None, caption, profiles(findings, group))
        found.append(replace(drawn, kind="chart"))
        pairs = _improvements(findings, group)
        if pairs:
            caption = _improvement_caption(findings, group, pairs, level)
            drawn = picture(f"improvements{end}", None, caption, improvements(findings, group))
            found.append(replace(drawn, kind="chart"))
    return found


def _both(findings: Findings, group: str) -> Any:
    """Draw the IQM above the optimality gap; return the axes of the former."""
    from matplotlib.figure import Figure

    height = 2 * _height(len(policies(findings)))
    upper, lower = Figure(figsize=(WIDTH, height), layout="constrained").subplots(2)
    aggregate(findings, lower, group, "optimality_gap").set_title("", loc="left")
    return aggregate(findings, upper, group)


def _units(rows: Iterable[Any]) -> str:
    """Units of some rows in words."""
    names = {"episodes": "episodes", "runs": "training runs", "models": "models"}
    there = {row.unit for row in rows}
    return " or ".join(name for unit, name in names.items() if unit in there)


def _improvement_caption(
    findings: Findings, group: str, pairs: Sequence[Improvement], level: str
) -> str:
    there = [row for row in findings.improvements if row.group == group]
    caption = (
        f"Probability of improvement{f' in {group}' if group else ''}: chance that one policy "
        f"scores higher than another, over {_units(pairs)} and tasks, with {level} interval; at "
        "the broken line neither is better."
    )
    tested = [row for row in there if math.isfinite(row.estimate)]
    if len(pairs) < len(tested):
        caption += f" Of {len(tested)} pairs those with the best policy by IQM are drawn."
    if len(tested) < len(there):
        caption += " Policies of different units of inference are not compared."
    return caption + _open_markers(pairs)


def _chart_pictures(findings: Findings, level: str) -> list[Picture]:
    found = []
    for name, (asked, _) in _asked(findings).items():
        points = [point for point in findings.charts if point.chart == name]
        if not points:
            continue
        caption = (
            f"Interquartile mean of {asked.metric} against {asked.x}, with its {level} band over "
            f"{_units(points)}."
        )
        if any(point.unit == "models" for point in points):
            caption += " For several models: the mean of theirs, and the t interval over models."
        drawn = picture(f"chart-{name}", None, caption, chart(findings, name))
        found.append(replace(drawn, kind="chart"))
    return found


def _open_markers(rows: Sequence[Any]) -> str:
    """What an open marker means, if there is one."""
    if all(_is_known(row.low, row.high) for row in rows):
        return ""
    return " Open markers: no interval, or one without width; the table says why."


def picture(name: str, task: str | None, caption: str, ax: Any) -> Picture:
    """Write a figure in both formats; the same figure gives the same bytes."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    figure, pixels = ax.figure, io.BytesIO()
    figure.get_layout_engine().execute(figure)  # much of the work: once for both formats
    figure.set_layout_engine(None)
    vector = svg(figure, name)
    figure.set_dpi(200)
    FigureCanvasAgg(figure).print_png(pixels, metadata={"Software": None})
    return Picture(name, task, caption, vector, pixels.getvalue())


def svg(figure: Any, name: str) -> str:
    """Write a figure as SVG, of the same bytes every time; ``name`` makes its own ids unique."""
    from matplotlib import rc_context
    from matplotlib.backends.backend_svg import FigureCanvasSVG

    vector = io.StringIO()
    nothing = {"Creator": None, "Date": None, "Format": None, "Type": None}
    with rc_context({"svg.hashsalt": name, "svg.fonttype": "none", "path.simplify": True}):
        # Not savefig, which draws everything twice.
        FigureCanvasSVG(figure).print_svg(vector, metadata=nothing)
    return _slim(vector.getvalue(), name)


def _slim(text: str, name: str) -> str:
    """Drop prolog, metadata and unused names from an SVG; make the others unique to it."""
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>\s*", "", text, flags=re.DOTALL)
    used = set(re.findall(r"(?:url\(#|href=\"#)([^\")]+)", text))
    text = re.sub(r' id="([^"]*)"', lambda m: m[0] if m[1] in used else "", text)
    for old in sorted(used):
        text = text.replace(f'id="{old}"', f'id="{name}-{old}"')
        text = text.replace(f"url(#{old})", f"url(#{name}-{old})")
        text = text.replace(f'href="#{old}"', f'href="#{name}-{old}"')
    return text

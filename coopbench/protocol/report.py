"""Report of a protocol: its score, metrics, charts, and what it reproduces."""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from pydantic import ConfigDict, Field, field_validator, model_validator

import coopbench_envs
from coopbench.episodes.metrics import known_metrics, missing_metric
from coopbench.protocol.base import Strict, as_tuple, later
from coopbench.protocol.task import Task, groups_of
from coopbench_envs.core import EnvSpec
from coopbench_envs.parameters import unknown


class Chart(Strict):
    """A metric against an axis of the tasks, one line per policy.

    Tasks at the same position of the axis are averaged. With ``per`` there is one picture for every
    value of that axis.
    """

    metric: str
    x: str
    per: str = ""
    group: str = ""  # draw only tasks of this group
    scale: Literal["linear", "log2"] = "linear"

    def panels(self, tasks: Iterable[Task]) -> dict[str, tuple[Task, ...]]:
        """Return the tasks of every picture, by its name."""
        panels: dict[str, list[Task]] = {}
        stem = "-".join(filter(None, (self.metric, "by", self.x, self.group)))
        for task in tasks:
            axes = {self.x, self.per} - {""}
            if axes <= set(task.axes) and self.group in ("", task.group):
                suffix = f"-{self.per}-{self.value_of(task)}" if self.per else ""
                panels.setdefault(stem + suffix, []).append(task)
        return {name: tuple(members) for name, members in panels.items()}

    def value_of(self, task: Task) -> str:
        """Return the number of a task on the axis ``per`` as a text that no other number has."""
        number = task.axes[self.per]
        return short if float(short := f"{number:g}") == number else f"{number:.17g}"


class Domain(Strict):
    """Additional metrics and baselines of the tasks of one group, and the curve of these tasks."""

    metrics: tuple[str, ...]  # shown after the metrics of the report
    curve: str  # replaces the curve of the report for these tasks
    baselines: tuple[str, ...] | None = later()  # required on these tasks, and play no others

    _lists = field_validator("metrics", "baselines", mode="before")(as_tuple)


class Reproduction(Strict):
    """Sections of the report, and methods, of the publication that a protocol reproduces.

    Any other key is the name of a section that only asked reports have: true, or what it shows.
    """

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, Literal[True] | tuple[str, ...]] = Field(init=False)
    # Interval of the interquartile mean of a learner's runs; without it, the two-way interval.
    bootstrap: Literal["percentile"] | None = later()

    @model_validator(mode="before")
    @classmethod
    def _asked_alone(cls, keys: Any) -> Any:
        """Leave out the sections that are not asked for, which earlier versions stored as well."""
        if not isinstance(keys, Mapping):
            return keys
        return {
            name: as_tuple(value)
            for name, value in keys.items()
            if value is not False and value != []
        }

    @property
    def sections(self) -> dict[str, Literal[True] | tuple[str, ...]]:
        """What is asked of each section, by its name."""
        return self.__pydantic_extra__

    def has_asked(self, section: str) -> bool:
        """Whether a section is asked for."""
        return section in self.sections

    def asked(self, section: str) -> tuple[str, ...]:
        """Return what a section shall show; nothing where it is not asked."""
        what = self.sections.get(section, ())
        return () if what is True else what


def _asks_nothing(reproduction: object) -> bool:
    return reproduction == Reproduction()


class Reporting(Strict):
    """What the standard report shows."""

    score: str  # metric that is normalized, compared and aggregated
    metrics: tuple[str, ...]
    curve: str  # metric whose course over an episode is drawn
    baselines: tuple[str, ...] = ()  # required on all tasks; see ``Domain`` for those of groups
    learned: tuple[str, ...] = ()  # learners that a standard report must contain
    confidence: float = Field(default=0.95, gt=0.5, lt=1.0)
    resamples: int = Field(default=2000, ge=100, le=100_000)
    alpha: float = Field(default=0.05, gt=0.0, lt=0.5)
    comparison: Literal["welch", "paired"] = "paired"  # paired: by seed, episodes or runs
    effect: Literal["cohens_d"] | None = later()  # shown in comparisons in addition to Hedges' g
    # Scale of scores: by default the tasks' bounds; minmax: the report's extreme episodes.
    normalisation: Literal["minmax"] | None = later()
    # Normalized difference that counts as none.
    margin: float | None = later(gt=0.0, allow_inf_nan=False)
    domain: dict[str, Domain] | None = later()  # metrics, curve and baselines by group of tasks
    chart: tuple[Chart, ...] = ()
    # Sections and methods of the publication that the protocol reproduces.
    reproduces: Reproduction = Field(default=Reproduction(), exclude_if=_asks_nothing)

    _lists = field_validator("metrics", "baselines", "learned", "chart", mode="before")(as_tuple)

    @model_validator(mode="after")
    def _apart(self) -> "Reporting":
        repeated = [name for name in self.learned if name in self.fixed]
        if repeated:
            raise ValueError(
                f"{repeated[0]!r} is listed in baselines and in learned; keep it in one"
            )
        for group, domain in (self.domain or {}).items():
            for name in domain.baselines or ():
                if name in self.baselines:
                    raise ValueError(
                        f"{name!r} is a baseline of all tasks and of the group {group!r}; keep it "
                        f"in one"
                    )
        return self

    @property
    def fixed(self) -> tuple[str, ...]:
        """Required policies that need no training: of all tasks, then of single groups of them."""
        domains = [domain.baselines or () for domain in (self.domain or {}).values()]
        return tuple(dict.fromkeys((*self.baselines, *itertools.chain.from_iterable(domains))))

    def has_play(self, policy: str, task: Task) -> bool:
        """Say whether a policy plays a task: all do, but baselines of groups only these groups."""
        domains = (self.domain or {}).items()
        groups = [group for group, domain in domains if policy in (domain.baselines or ())]
        return not groups or task.group in groups

    def metrics_of(self, task: Task) -> tuple[str, ...]:
        """Return the metrics that are reported of a task: score, the report's, its group's, own."""
        domain = (self.domain or {}).get(task.group)
        further = (*(() if domain is None else domain.metrics), *(task.metrics or ()))
        return tuple(dict.fromkeys((self.score, *self.metrics, *further)))

    def curve_of(self, task: Task) -> str:
        """Return the metric whose course over an episode of a task is drawn."""
        domain = (self.domain or {}).get(task.group)
        return self.curve if domain is None else domain.curve


def check_report(report: Reporting, tasks: Sequence[Task]) -> None:
    """Check a report against the tasks of its protocol; raise ``ValueError`` if it does not fit."""
    _check_dependent_metrics(report, tasks)
    _check_domains(report, tasks)
    _check_normalisation(report, tasks)
    _check_charts(report, tasks)
    _check_metrics(report, tasks)


def _check_dependent_metrics(report: Reporting, tasks: Sequence[Task]) -> None:
    """Check that metrics which mean nothing alone are reported directly after their reference."""
    pairs = {pair for task in tasks for pair in coopbench_envs.spec(task.env).dependent.items()}
    lists = [report.metrics_of(task) for task in tasks if task.metrics]
    for metric, reference in sorted(pairs):
        _check_single(report, metric, reference)
        _check_listed(report, lists, metric, reference)
        _check_drawn(report.chart, metric, reference)


def _check_single(report: Reporting, metric: str, reference: str) -> None:
    """Check that a dependent metric is neither the score nor a curve."""
    curves = (report.curve, *(domain.curve for domain in (report.domain or {}).values()))
    for use, name in (("score", report.score), *(("curve", curve) for curve in curves)):
        if name == metric:
            raise ValueError(f"{use} {metric!r} means nothing alone; allowed: {reference!r}")


def _check_listed(
    report: Reporting, lists: Sequence[tuple[str, ...]], metric: str, reference: str
) -> None:
    """Check that a dependent metric directly follows its reference in every list."""
    shown = tuple(dict.fromkeys((report.score, *report.metrics)))
    domains = [domain.metrics for domain in (report.domain or {}).values()]
    for names in (report.metrics, shown, *domains, *lists):
        if metric in names and (reference, metric) not in itertools.pairwise(names):
            raise ValueError(
                f"{metric!r} must be reported together with {reference!r}, placed right after it"
            )


def _check_drawn(charts: Sequence[Chart], metric: str, reference: str) -> None:
    """Check that a chart of a dependent metric has a twin of its reference."""
    for chart in (chart for chart in charts if chart.metric == metric):
        twins = (
            chart.model_copy(update={"metric": reference, "scale": other.scale}) == other
            for other in charts
        )
        if not any(twins):
            raise ValueError(f"a chart of {metric!r} needs one of {reference!r} as well")


def _check_domains(report: Reporting, tasks: Sequence[Task]) -> None:
    """Check that the domains of a report are groups of the tasks."""
    groups = groups_of(tasks)
    for name in report.domain or {}:
        if name not in groups:
            raise ValueError(unknown("group", name, groups, "the domains of the report"))


def _check_normalisation(report: Reporting, tasks: Sequence[Task]) -> None:
    """Check that every task has bounds, or that scores are normalized without them and a margin."""
    if report.normalisation != "minmax":
        for task in tasks:
            if "bounds" not in task.model_fields_set:
                raise ValueError(
                    f"task {task.id!r} has no bounds, the scores that count as 0 and as 1; add "
                    f"them, or set normalisation = 'minmax' in [report]"
                )
        return
    if report.margin is not None:
        raise ValueError(
            "a margin is in units of the tasks' bounds, which normalisation 'minmax' does not "
            "use; remove one of them"
        )


def _check_charts(report: Reporting, tasks: Sequence[Task]) -> None:
    """Check that charts show reported metrics against axes with at least two positions."""
    axes, groups = {name for task in tasks for name in task.axes}, groups_of(tasks)
    for chart in report.chart:
        for name in filter(None, (chart.x, chart.per)):
            if name not in axes:
                problem = unknown("axis", name, axes, f"a chart of {chart.metric}")
                raise ValueError(f"{problem} The key 'axes' of a task sets its positions.")
        if chart.group and chart.group not in groups:
            raise ValueError(unknown("group", chart.group, groups, "a chart"))
        if chart.metric not in report.metrics:
            raise ValueError(unknown("metric", chart.metric, report.metrics, "a chart"))
        _check_positions(chart, tasks)
    names = [name for chart in report.chart for name in chart.panels(tasks)]
    repeated = [name for name in names if names.count(name) > 1]
    if repeated:
        raise ValueError(f"two charts are called {repeated[0]!r}; remove one")


def _check_positions(chart: Chart, tasks: Sequence[Task]) -> None:
    """Check that tasks have enough positions on the axis of a chart, and that its scale fits."""
    panels = chart.panels(tasks).values()
    positions = [{task.axes[chart.x] for task in panel} for panel in panels]
    if max(map(len, positions), default=0) < 2:
        raise ValueError(f"a chart against {chart.x!r} has one position only; allowed: 2")
    low = min(map(min, positions))
    if chart.scale == "log2" and low <= 0:
        raise ValueError(f"a log2 chart against {chart.x!r} has {low:g}; allowed: above 0")


def _check_metrics(report: Reporting, tasks: Sequence[Task]) -> None:
    """Check that every task has the metrics that are reported of it, and its curve a course."""
    for task in tasks:
        spec, curve = task.spec, report.curve_of(task)
        metrics = known_metrics(spec)
        for name in (*report.metrics_of(task), curve):
            if name not in metrics:
                raise ValueError(missing_metric(spec, name, f"task {task.id!r}"))
        measured = measured_by(spec)
        if curve not in measured:
            raise ValueError(
                f"curve {curve!r} of task {task.id!r} has no course over an "
                f"episode; allowed: what the game itself measures, {', '.join(measured)}"
            )


def measured_by(spec: EnvSpec) -> tuple[str, ...]:
    """Return the metrics that an environment itself measures, which have a course over an episode.

    Raises ``ValueError`` if there are none: a report draws the course of one.
    """
    if not spec.metrics:
        raise ValueError(
            f"{spec.id} has no metrics, and a report draws the course of one; name one in "
            f"`metrics` of its EnvSpec, and write it in its kernel `measure`."
        )
    return tuple(spec.metrics)

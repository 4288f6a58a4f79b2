"""How to read a report: what every number in it means, and what it does not say."""

from coopbench.analysis.aggregates import SHOWN
from coopbench.analysis.findings import Findings
from coopbench.analysis.learning import THRESHOLD
from coopbench.analysis.samples import EPISODES, RUNS
from coopbench.episodes.metrics import known_agent_metrics
from coopbench.report.numbers import level_text
from coopbench.report.tables.words import unit_names, units

__all__ = ["reading"]

_FOCAL = {
    "Focal seat": "With partners, the policy takes one seat in each episode: seat k mod n "
    "in episode k of n agents. The partners take the other seats and shift by one whenever the "
    "policy has taken every seat. The metric own_return counts the policy's seat alone. Intervals "
    "include the variation between seats and partners.",
}
_WELCH = {
    "Welch's t, df, p": "Tests whether two means differ without assuming equal variances "
    "(Welch 1947, Biometrika 34: 28-35). Policies play the same seeds; the test makes no use "
    "of that pairing.",
}
_PAIRED = {
    "Paired t, df, p, r": "Policies play the same seeds. Tests whether the mean of the differences "
    "between episodes, or training runs, of the same seed is zero (Student 1908, Biometrika 6: "
    "1-25). The higher the correlation r of the two scores over seeds, the more the pairing helps.",
}
_CHARTS = {
    "Charts": "A point is the interquartile mean of a metric over all tasks with that value on the "
    "axis; its band is the interval of the stratified bootstrap. All points are in charts.csv.",
}
_AGARWAL = (
    "Agarwal et al. 2021, Deep Reinforcement Learning at the Edge of the Statistical Precipice, "
    "NeurIPS 34"
)
_METHODS = {  # of the bootstrap
    "percentile": "Method percentile: its ends are quantiles of the resampled values.",
    "expanded": "Method expanded: the quantiles are widened for few runs (Hesterberg 2015, The "
    "American Statistician 69: 371-386).",
    "t": "Method t: a t quantile of standard errors to either side, for runs of a single task.",
}


def reading(findings: Findings) -> dict[str, str]:
    """Return how to read the report, as {term: some sentences}."""
    settings, level = findings.protocol.report, level_text(findings.protocol)
    return {
        **_units(findings),
        f"Mean, SD, {level} interval": "Student's t interval of the mean over "
        f"{unit_names(findings.estimates)} (Student 1908, Biometrika 6: 1-25). Where all values "
        "are equal it has zero width, and nothing can be inferred about the uncertainty.",
        **(_FOCAL if any(task.partners for task in findings.protocol.task) else {}),
        "Agents": "An agent is one seat of a game; its numbers are means over the episodes in "
        f"which the policy played it. {_agent_meanings(findings)}",
        **_scores(findings),
        **(_groups(findings) if findings.profiles else {}),
        "Acts on": "What a registered policy bases its actions on: its own observations (local), "
        "also what others in sight do (neighbours), the whole state (global), or nothing (none). "
        "Compare policies with those that have the same information.",
        **(_PAIRED if settings.comparison == "paired" else _WELCH),
        "Holm p": "The p value adjusted so that the chance of any false positive among all tests "
        "of one task stays below the level it is compared with (Holm 1979, Scandinavian Journal of "
        f"Statistics 6: 65-70). Those below {settings.alpha:g} are set in bold.",
        **_equivalence(findings),
        "Hedges g": "The difference divided by the pooled standard deviation and corrected for the "
        "bias of small samples (Hedges 1981, Journal of Educational Statistics 6: 107-128). It is "
        "very large where policies hardly vary, as fixed ones do in deterministic games.",
        **(_CHARTS if findings.charts else {}),
        **(_LEARNING if findings.learning else {}),
    }


def _units(findings: Findings) -> dict[str, str]:
    present, text = set(units(findings).values()), ""
    if EPISODES in present or not present:
        text = (
            "For fixed policies, intervals and tests are over episodes of the policies as they "
            "are: they say how much a number would change with other seeds. They say nothing about "
            "how well a training method would do in another run; for that, the training run is the "
            "unit. "
        )
    if RUNS in present:
        text += (
            "For learned policies every training run counts once, by the mean over its evaluation "
            "episodes: intervals and tests say how much a number would change with other runs. "
        )
    if {EPISODES, RUNS} <= present:
        text += "A fixed policy is compared with runs by its mean over the same episodes."
    return {"Unit of inference": text.strip()}


def _scores(findings: Findings) -> dict[str, str]:
    settings = findings.protocol.report
    if settings.normalisation == "minmax":
        score = (
            "The score mapped so that the lowest and the highest episode of this report on a task "
            "become 0 and 1; it changes whenever a policy is added, and cannot be compared with "
            "that of other reports."
        )
    else:
        score = (
            "The score mapped so that the bounds that the protocol fixes for each task become 0 "
            "and 1; it does not depend on which other policies were evaluated."
        )
    statistics = {statistic.label: statistic.reading for statistic in SHOWN.values()}
    return {"Normalised score": score, **statistics, "Bootstrap": _bootstrap(findings)}


def _bootstrap(findings: Findings) -> str:
    """Say how the intervals over several tasks are made."""
    methods = {row.method for row in findings.aggregates}
    sentences = [text for name, text in _METHODS.items() if name in methods]
    return " ".join(
        [
            f"Intervals over tasks come from {findings.protocol.report.resamples:,} resamples of "
            f"the {unit_names(findings.aggregates)} within each task ({_AGARWAL}).",
            *sentences,
        ]
    )


def _groups(findings: Findings) -> dict[str, str]:
    over = unit_names(findings.aggregates)
    return {
        "Rank": "From the best to the worst place by IQM that a policy may have among those of its "
        "unit of inference: after all that are significantly better, before all that are "
        "significantly worse; the intervals of all policies hold at once (Mogstad et al. 2024, "
        "Review of Economic Studies 91: 476-518). No rank is shown without its interval.",
        "Probability of improvement": "The chance that one policy scores higher than another when "
        f"the task and one of the {over} of each are drawn at random; a tie counts one half, so "
        "that 0.5 is no difference. It says how often, not by how much. The two are resampled "
        "independently (Agarwal et al. 2021). All pairs of one unit are in improvements.csv.",
        "Profile": f"The share of the normalised scores of all tasks and {over} above a "
        "threshold: the higher the line, the better; where lines cross, neither policy is better "
        "throughout. Bands hold for each threshold separately (Agarwal et al. 2021; Dolan and More "
        "2002, Mathematical Programming 91: 201-213). All points are in profiles.csv.",
    }


def _equivalence(findings: Findings) -> dict[str, str]:
    margin = findings.protocol.report.margin
    if margin is None:
        text = (
            "The protocol declares no margin within which two policies count as equal, so this "
            "report never says that two do not differ: a large p value does not show it."
        )
    else:
        text = (
            "Two one-sided tests (Schuirmann 1987, Journal of Pharmacokinetics and "
            "Biopharmaceutics 15: 657-680) that two means differ by less than the margin which the "
            f"protocol declares, {margin:g} of normalised score; adjusted like Holm p. "
            '"No difference" is claimed only through this test, never through a large p value.'
        )
    return {"Equivalence": text}


def _agent_meanings(findings: Findings) -> str:
    """Say what the metrics of agents mean in the games of this report, as sentences."""
    meanings = {
        name: text
        for task in findings.protocol.task
        for name, text in known_agent_metrics(task.env).items()
    }
    return " ".join(f"{name}: {text}." for name, text in meanings.items())


_LEARNING = {
    "Learning curves": "Scores of the checkpoints of training runs on the selection episodes, at "
    "the true numbers of steps. Bands are intervals of single points, not of the whole curve; over "
    "a group, runs are resampled whole, with all their checkpoints. Where runs have different "
    "checkpoints, only those that all runs have are shown.",
    f"Area, steps to {THRESHOLD:g}": "Area: the mean height of the curve of a group, which rewards "
    "early learning. Steps: to the first checkpoint at which the curve has reached "
    f"{THRESHOLD:g}; nothing is interpolated between checkpoints.",
}

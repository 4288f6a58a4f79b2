"""How to read a report: what every number in it means, and what it does not say."""

from coopbench.analysis.aggregates import BEHIND, IQM, RESAMPLES, TWO_WAY, shown_statistics
from coopbench.analysis.findings import Findings
from coopbench.analysis.learning import THRESHOLD
from coopbench.analysis.score_matrix import EPISODES, RUNS
from coopbench.episodes.metrics import known_agent_metrics
from coopbench.report.numbers import level_text
from coopbench.report.tables.entries import decisions_text, has_certified_partners, unit_names

_FOCAL = {
    "Focal seat": "With partners, the policy takes one seat in each episode: seat k mod n "
    "in episode k of n agents. The partners take the other seats and shift by one whenever the "
    "policy has taken every seat. The metric own_return counts only the policy's seat. Seats and "
    "partners rotate in a fixed order and have equal shares, so intervals treat them as strata: "
    "they exclude the variation between seats and partners.",
}
_BOUNDS_WITH_PARTNERS = {
    "Scores with partners": "A score of 0 is that of the best rule found that ignores its "
    "partners; 1 is that of the best response to each partner, when the partner is known in "
    "advance. A negative score is worse than that rule, not worse than chance: random play scores "
    "about -3 in the games of this package.",
}
_CHARTS = {
    "Charts": "A point is the trimmed mean of a metric's task means, over the tasks with that "
    "value on the axis; for a single task it is the mean. Its band covers runs and episodes. All "
    "points are in charts.csv.",
}
_AGARWAL = (
    "Agarwal et al. 2021, Deep Reinforcement Learning at the Edge of the Statistical Precipice, "
    "NeurIPS 34"
)


def explanations(findings: Findings) -> dict[str, str]:
    """Return how to read the report, as {term: some sentences}."""
    settings, level = findings.protocol.report, level_text(findings.protocol)
    return {
        **_units(findings),
        f"Mean, {level} interval": _INTERVAL,
        **(_RUNS if RUNS in set(findings.units.values()) else {}),
        "SD": "Standard deviation of run means, and of the episodes of one run; divisor n - 1.",
        **(_FOCAL if any(task.partners for task in findings.protocol.task) else {}),
        **(_BOUNDS_WITH_PARTNERS if has_certified_partners(findings) else {}),
        "Agents": "An agent is one seat of a game; its numbers are means over the episodes in "
        f"which the policy played it. {_agent_meanings(findings)}",
        **_scores(findings),
        **(_groups(findings) if findings.profiles else {}),
        "Acts on": "What a registered policy bases its actions on: its own observations (local), "
        "also what others in sight do (neighbours), the whole state (global), or nothing (none). "
        "Compare policies with those that have the same information.",
        "p, r": f"{_P['own' if findings.episodes.own_episodes else settings.comparison]} p is the "
        "level at which the interval of the difference touches 0. r is the correlation of the two "
        "scores over seeds.",
        "Holm p": "The p value adjusted so that the chance of any false positive among the tasks "
        "of a group, for one pair of policies, stays below the level it is compared with (Holm "
        "1979, Scandinavian Journal of Statistics 6: 65-70). Bold: values below "
        f"{settings.alpha:g} where the difference may be claimed.",
        "Decisions": f"{decisions_text(findings)} {_others(findings)}",
        **_equivalence(findings),
        "Hedges g": "The difference divided by the pooled standard deviation (of runs if a "
        "learner is involved, otherwise of episodes), corrected for small-sample bias "
        "(Hedges 1981, Journal of Educational Statistics 6: 107-128). It is very large where "
        "policies hardly vary, for example fixed policies in deterministic games.",
        **(_CHARTS if findings.charts else {}),
        **(_LEARNING if findings.learning else {}),
    }


def _others(findings: Findings) -> str:
    """Say whether the decision on a pair depends on the other policies in the report."""
    if findings.protocol.report.normalisation == "minmax":
        return "Over a group, other policies can change it: they move the scale of its tasks."
    return "The decision on a pair does not depend on the other policies in the report."


_INTERVAL = (
    "Means are over runs and episodes; the interval is for new training runs and new episodes. All "
    "runs play the same episodes: the interval adds the variance between runs and the variance "
    "between episodes, and subtracts the part that is counted twice (Searle, Casella and McCulloch "
    "1992, Variance Components). A fixed policy has no runs; its interval is Student's t over "
    "episodes. A score that does not vary is exact if nothing is drawn and every start is played: "
    "such an episode counts once, however often it was played. Otherwise its interval is a bound: "
    "1 - (alpha / 2)^(1 / n) of all episodes, about 3 / n, could have any other score (Clopper and "
    "Pearson 1934, Biometrika 26: 404-413)."
)
_RUNS = {
    "Runs above": "The number of a learner's runs that score above a fixed policy, with the exact "
    "interval of their share (Clopper and Pearson 1934, Biometrika 26: 404-413).",
    "Runs far below": f"Runs that score more than {BEHIND:g} below the best run of the same policy "
    "on the same task.",
}
_P = {
    "paired": "Policies are compared on the same episodes, so they share the same random events.",
    "welch": "Policies are compared as if they had played different episodes, although they played "
    "the same seeds.",
    "own": "Policies are compared as independent: each has played its own episodes.",
}


def _units(findings: Findings) -> dict[str, str]:
    present, text = set(findings.units.values()), ""
    if EPISODES in present or not present:
        text = (
            "Fixed policies are evaluated as given: their intervals show how much a number would "
            "change with other episodes. They say nothing about how well a training method would "
            "do in another run. "
        )
    if RUNS in present:
        text += (
            "For learned policies, intervals show how much a number would change with other "
            "training runs and other episodes. "
        )
    if {EPISODES, RUNS} <= present:
        text += "Means, aggregates and differences of both kinds can be compared directly."
    return {"Unit of inference": text.strip()}


def _scores(findings: Findings) -> dict[str, str]:
    settings = findings.protocol.report
    if settings.normalisation == "minmax":
        score = (
            "The score, rescaled so that the lowest and the highest episode of this report on a "
            "task become 0 and 1. It changes whenever a policy is added, and cannot be compared "
            "with the scores of other reports."
        )
    else:
        score = (
            "The score, rescaled so that the bounds that the protocol fixes for each task become "
            "0 and 1. It does not depend on which other policies were evaluated."
        )
    return {
        "Normalized score": score,
        **{statistic.label: statistic.reading for statistic in shown_statistics().values()},
        **(_of_runs(findings) if findings.aggregates else {}),
    }


def _of_runs(findings: Findings) -> dict[str, str]:
    """Say what the interquartile mean of runs is, where there are learners."""
    methods = {row.method for row in findings.aggregates_of(IQM)}
    if not methods:
        return {}
    text = (
        "The mean of the middle half of all run means, pooled over tasks: the score of the typical "
        f"run ({_AGARWAL}). Only learners have it."
    )
    if methods != {TWO_WAY}:
        resamples = max(RESAMPLES, findings.protocol.report.resamples)
        text += (
            " As published, its interval is the stratified bootstrap over runs alone, method "
            f"{' or '.join(sorted(methods))}, {resamples:,} resamples: it leaves out what other "
            "episodes would change."
        )
    return {"IQM": text}


def _groups(findings: Findings) -> dict[str, str]:
    over = unit_names(findings.aggregates)
    return {
        "Comparisons over groups": "The difference of the means over tasks comes first. The "
        "difference of trimmed means has an interval up to twice too wide if tasks tie.",
        "Rank": "All ranks that a policy may have: it ranks below every policy with a "
        "significantly higher mean, and above every policy with a significantly lower mean. The p "
        "values are adjusted by Holm's method over all pairs of the group, so that the ranks of "
        "all policies hold simultaneously.",
        "Probability of improvement": "The chance that one policy scores higher than another when "
        f"the task and one of the {over} of each are drawn at random; a tie counts one half, so "
        "that 0.5 is no difference (Agarwal et al. 2021). It says how often, not by how much. "
        "Intervals are Newcombe's (2006, Statistics in Medicine 25: 559-573), for runs on these "
        "episodes, and never have a width of zero. All pairs of one unit are in improvements.csv.",
        "Profile": f"The share of the normalized scores of all tasks and {over} above a "
        "threshold: the higher the line, the better; where lines cross, neither policy is better "
        "throughout. Shares of episodes and shares of runs are drawn apart. Bands hold for each "
        "threshold separately (Agarwal et al. 2021; Dolan and More 2002, Mathematical Programming "
        "91: 201-213). All points are in profiles.csv.",
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
            f"protocol declares, {margin:g} of normalized score; adjusted like Holm p. "
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
    "the true numbers of steps. Bands are intervals of single points, over runs and episodes, not "
    "of the whole curve; over a group, of the trimmed mean over tasks. Where runs have "
    "different checkpoints, only those that all runs have are shown. Dotted lines are fixed "
    "policies in the evaluation episodes: selection episodes are others, and fewer, so that they "
    "can be easier or harder; whether a learner beats a fixed policy is told by the comparisons.",
    f"Area, steps to {THRESHOLD:g}": "Area: the mean height of the curve of a group, which rewards "
    "early learning. Steps: to the first checkpoint at which the curve has reached "
    f"{THRESHOLD:g}; nothing is interpolated between checkpoints. Its interval goes from where the "
    "upper end of the band reaches it to where the lower end does.",
}

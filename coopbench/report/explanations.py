"""How to read a report: what every number in it means, and what it does not say."""

from coopbench.analysis.aggregates import BEHIND, IQM, RESAMPLES, TWO_WAY, shown_statistics
from coopbench.analysis.findings import Findings
from coopbench.analysis.learning import THRESHOLD
from coopbench.analysis.score_matrix import EPISODES, RUNS
from coopbench.episodes.metrics import known_agent_metrics
from coopbench.report.numbers import level_text
from coopbench.report.tables.entries import decisions_text, unit_names, units

_FOCAL = {
    "Focal seat": "With partners, the policy takes one seat in each episode: seat k mod n "
    "in episode k of n agents. The partners take the other seats and shift by one whenever the "
    "policy has taken every seat. The metric own_return counts the policy's seat alone. Seats and "
    "partners rotate in a fixed order, so that they are strata: intervals leave out the variation "
    "between them, because every seat and partner has its share.",
}
_BOUNDS_WITH_PARTNERS = {
    "Scores with partners": "0 is the best rule found that does not look at its partners, and 1 "
    "the best response to each of them, known in advance. A negative score is worse than that "
    "rule, not worse than chance: random play scores about -3 in the games of this package.",
}
_CHARTS = {
    "Charts": "A point is the trimmed mean over tasks of a metric's mean on those with that "
    "value on the axis; of one task it is the mean. Its band is over runs and episodes. All points "
    "are in charts.csv.",
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
        **(_UNSEEN if RUNS in set(units(findings).values()) else {}),
        "SD": "Standard deviation of run means, and of the episodes of one run; divisor n - 1.",
        **(_FOCAL if any(task.partners for task in findings.protocol.task) else {}),
        **(_BOUNDS_WITH_PARTNERS if _has_certified_partners(findings) else {}),
        "Agents": "An agent is one seat of a game; its numbers are means over the episodes in "
        f"which the policy played it. {_agent_meanings(findings)}",
        **_scores(findings),
        **(_groups(findings) if findings.profiles else {}),
        "Acts on": "What a registered policy bases its actions on: its own observations (local), "
        "also what others in sight do (neighbours), the whole state (global), or nothing (none). "
        "Compare policies with those that have the same information.",
        "p, r": f"{_P[settings.comparison]} p is the level at which the interval of the difference "
        "touches 0. r is the correlation of the two scores over seeds.",
        "Holm p": "The p value adjusted so that the chance of any false positive among the tasks "
        "of a group, for one pair of policies, stays below the level it is compared with (Holm "
        "1979, "
        "Scandinavian Journal of Statistics 6: 65-70). Those below "
        f"{settings.alpha:g} that may be claimed are set in bold.",
        "Decisions": f"{decisions_text(findings)} No other contestant changes the decision on two.",
        **(_CLAIMS if RUNS in set(units(findings).values()) else {}),
        **_equivalence(findings),
        "Hedges g": "The difference divided by the pooled standard deviation, of runs where a "
        "learner takes part, otherwise of episodes, and corrected for the bias of small samples "
        "(Hedges 1981, Journal of Educational Statistics 6: 107-128). It is "
        "very large where policies hardly vary, as fixed ones do in deterministic games.",
        **(_CHARTS if findings.charts else {}),
        **(_LEARNING if findings.learning else {}),
    }


_INTERVAL = (
    "Means are over runs and episodes; the interval is for new training runs and new episodes. All "
    "runs play the same episodes: the interval adds what runs and what episodes contribute, and "
    "takes off what both contain (Searle, Casella and McCulloch 1992, Variance Components). Of a "
    "fixed policy, which has no runs, it is Student's over episodes. Where all values are equal it "
    "has zero width, and nothing can be inferred about the uncertainty."
)
_UNSEEN = {
    "If unseen runs fail": "Runs that fail are often missing from a small sample: where a fifth "
    "of the runs fails, five runs show no failure in a third of all cases. The second line of an "
    "interval puts the share of runs that n runs can hide, 1 - .025^(1/n) at 95 %, at either end "
    "of the scale. Over a group n counts the runs of all its tasks.",
    "Runs far below": f"Runs that score more than {BEHIND:g} below the best run of the same policy "
    "on the same task.",
}
_CLAIMS = {
    "Not shown, runs above": "A difference is claimed only if runs that nobody has seen do not "
    "explain it: of all shares of runs that could be at the end of the scale that speaks against "
    "it, on one side or on both, and would close the gap, the most likely to have stayed unseen "
    "must have had a chance below alpha, adjusted with p over the tasks of the group. Otherwise "
    "its p is not shown. The ends of the scale are those of the "
    "task in the protocol, or what a run of the two has reached beyond them; without agreed bounds "
    "there is no decision on learners. Runs above: how many runs of a learner "
    "score above a fixed policy, with the exact interval of their share (Clopper and Pearson 1934, "
    "Biometrika 26: 404-413).",
}
_P = {
    "paired": "Policies are compared on the same episodes, whose luck they share.",
    "welch": "Policies are compared as if they had played different episodes, although they play "
    "the same seeds.",
}


def _has_certified_partners(findings: Findings) -> bool:
    """Whether 0 and 1 of the played tasks with partners are those of certificates of games."""
    certified = {row.task for row in findings.certificates}
    played = {task for task, _ in findings.episodes.pairs}
    focal = {task.id for task in findings.protocol.task if task.partners} & played
    return bool(focal) and focal <= certified


def _units(findings: Findings) -> dict[str, str]:
    present, text = set(units(findings).values()), ""
    if EPISODES in present or not present:
        text = (
            "Fixed policies are evaluated as they are: intervals say how much a number would "
            "change with other episodes. They say nothing about how well a training method would "
            "do in another run. "
        )
    if RUNS in present:
        text += (
            "For learned policies they say how much a number would change with other training "
            "runs and other episodes. "
        )
    if {EPISODES, RUNS} <= present:
        text += "Means, aggregates and differences of both answer the same question."
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
    return {
        "Normalised score": score,
        **{statistic.label: statistic.reading for statistic in shown_statistics().values()},
        **(_of_runs(findings) if findings.aggregates else {}),
    }


def _of_runs(findings: Findings) -> dict[str, str]:
    """Say what the interquartile mean of runs is, where there are learners."""
    methods = {row.method for row in findings.aggregates if row.statistic == IQM}
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
        "Comparisons over groups": "The difference of the means over tasks comes first: that of "
        "trimmed means has an interval up to twice too wide where tasks tie.",
        "Rank": "All ranks that a policy may have: it stands after all that are "
        "significantly better by the mean, before all that are significantly worse: their p, "
        "that with unseen runs where it is larger, is adjusted by Holm's method over all pairs of "
        "the group, so that the intervals of all policies hold at once.",
        "Probability of improvement": "The chance that one policy scores higher than another when "
        f"the task and one of the {over} of each are drawn at random; a tie counts one half, so "
        "that 0.5 is no difference (Agarwal et al. 2021). It says how often, not by how much. "
        "Intervals are Newcombe's (2006, Statistics in Medicine 25: 559-573), for runs on these "
        "episodes, and never have a width of zero. All pairs of one unit are in improvements.csv.",
        "Profile": f"The share of the normalised scores of all tasks and {over} above a "
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

"""Coverage over groups whose tasks share seeds: a table of ``python -m studies.validity``."""

import argparse
from collections.abc import Iterator

import numpy as np

from coopbench.analysis.score_matrix import group_matrices
from coopbench.episodes.table import EpisodeTable
from coopbench.playing.plan import plan
from coopbench.playing.rollout import play
from coopbench.protocol.loading import load_protocol
from coopbench.protocol.schema import Protocol
from coopbench.statistics import Grid, TwoWay, half_widths, mean_weights, trimmed_weights

AGAIN, FIRST = 6, 100_000  # evaluations with other seeds, one after the other from FIRST
PLAYERS = ("cooperator", "unforgiving")


def groups(arguments: argparse.Namespace) -> Iterator[list[str]]:
    """Yield the coverage of means over the groups of coopetition-standard, with its real scores.

    The protocol is played with many sets of seeds, each with the seats and partners that it has. An
    evaluation draws for each of its episodes one of the seeds that were played in its place, the
    same one in all tasks. The truth is the mean over all seeds, with these seats and partners; the
    last column is its distance from the mean in which all seats and partners count alike.
    """
    protocol = load_protocol("coopetition-standard")
    rows: dict[tuple[str, str], list[np.ndarray]] = {}
    labels: dict[tuple[str, str], list[np.ndarray | None]] = {}
    for again in range(AGAIN):
        played = _with_seeds(protocol, again)
        blocks = [play(played, cell, who.family) for cell, who in plan(played, PLAYERS)]
        for group, members in group_matrices(played, EpisodeTable(tuple(blocks))).items():
            for policy, plays in members.items():
                rows.setdefault((group, policy), []).append(np.array([p.values for p in plays]))
                labels[group, policy] = [one.grid().strata for one in plays]
    yield ["group", "policy", "mean", "width", "trimmed mean", "as if seeds differed", "off"]
    for (group, policy), scores in rows.items():
        numbers = _coverage(_as_new(scores), labels[group, policy], arguments.trials)
        yield [group, policy, *(f"{value:z.3f}" for value in numbers)]


def _with_seeds(protocol: Protocol, again: int) -> Protocol:
    """Return the protocol with other evaluation seeds."""
    count = protocol.seeds.evaluation.count
    content = protocol.model_dump(mode="json")
    content["seeds"]["evaluation"] = {"first": FIRST + again * count, "count": count}
    return type(protocol).model_validate(content, strict=False)


def _as_new(scores: list[np.ndarray]) -> np.ndarray:
    """Return (tasks, sets of seeds, episodes) of which a draw varies as a new seed does.

    A draw among n values varies by (n - 1) / n of what new ones do.
    """
    values = np.stack(scores, axis=1)
    means = values.mean(axis=1, keepdims=True)
    widened: np.ndarray = means + (values - means) * np.sqrt(len(scores) / (len(scores) - 1))
    return widened


def _coverage(
    scores: np.ndarray, strata: list[np.ndarray | None], trials: int
) -> tuple[float, float, float, float, float]:
    """Return the coverage of the mean, its mean width, two further coverages, and a distance.

    ``scores`` is (tasks, sets of seeds, episodes). The coverages are those of the trimmed mean, and
    of the mean as if the tasks had other seeds; the distance is that of two definitions of the
    truth, see ``groups``.
    """
    rng, truth = np.random.default_rng(21), scores.mean(axis=(1, 2))
    hits, width, episodes = np.zeros(3), 0.0, np.arange(scores.shape[2])
    for _ in range(trials):
        drawn = scores[:, rng.integers(scores.shape[1], size=len(episodes)), episodes]
        rows = list(zip(drawn, strata, strict=True))
        shared = TwoWay([Grid(values, "seeds", strata=labels) for values, labels in rows])
        apart = TwoWay([Grid(values, strata=labels) for values, labels in rows])
        for k, (two_way, weights) in enumerate(
            ((shared, mean_weights), (shared, trimmed_weights), (apart, mean_weights))
        ):
            form = weights(two_way.means)
            half = half_widths(two_way.spread(form))[0]
            hits[k] += abs(form @ two_way.means - weights(truth) @ truth) <= half
            width += 2.0 * half if k == 0 else 0.0
    balanced = [_balanced(task.mean(axis=0), one) for task, one in zip(scores, strata, strict=True)]
    off = float(np.mean(truth) - np.mean(balanced))
    return hits[0] / trials, width / trials, hits[1] / trials, hits[2] / trials, off


def _balanced(scores: np.ndarray, strata: np.ndarray | None) -> float:
    """Return the mean of the means of the strata."""
    labels = np.zeros(len(scores), np.int64) if strata is None else strata
    return float(np.mean([scores[labels == one].mean() for one in np.unique(labels)]))

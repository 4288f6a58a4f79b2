"""Trained runs that are kept or shipped, from which the tables of learners are made."""

import itertools
from pathlib import Path

import pytest

import coopbench
from coopbench.baselines.registry import learners
from coopbench.protocol.variants import with_tasks
from coopbench.results.packed_runs import SUFFIX, read_runs
from coopbench.workflows.training_plan import budget_of
from studies import reference

FILES = [file for files in reference.packed_files().values() for file in files]
BEGUN = [
    training
    for training in reference.TRAININGS
    if reference.packed(training.protocol, training.learner).is_file()
]


def protocol_of(file: Path) -> coopbench.Protocol:
    """Return the protocol of a file of runs, as it is now."""
    return coopbench.load_protocol(reference.source(file.parent.name))


def runs_of(models, protocol):
    """Return the models by seed, of each task that models are trained on or of the one setting."""
    return [*models.trained.values()] if protocol.training.on == "each" else [models.trained]


@pytest.mark.parametrize("file", FILES, ids=lambda file: f"{file.parent.name}-{file.stem}")
def test_kept_runs_belong_to_the_protocol_as_it_is(file):
    models = read_runs(file, protocol := protocol_of(file))
    assert file.name == f"{models.name}{SUFFIX}"
    assert len(set(map(frozenset, runs_of(models, protocol)))) == 1
    for task in [t.id for t in protocol.task if t.trained_on][:1]:  # alone, they play it as well
        assert list(read_runs(file, with_tasks(protocol, [task])).trained) == [task]


@pytest.mark.parametrize("training", BEGUN, ids=lambda each: f"{each.protocol}-{each.learner}")
def test_kept_runs_were_trained_for_the_steps_of_the_plan(training):
    """Also those of learners that still lack runs; tasks may have budgets of their own."""
    protocol = coopbench.load_protocol(reference.source(training.protocol))
    models = read_runs(reference.packed(training.protocol, training.learner), protocol)
    steps, learner = reference.steps_of(training, protocol), learners()[training.learner]
    tasks = {task.id: task for task in protocol.training_tasks}
    for model in itertools.chain.from_iterable(r.values() for r in runs_of(models, protocol)):
        budget = budget_of(protocol, learner, steps, task=tasks[model.facts["task"]])
        assert (model.facts["steps"], model.facts["interval"]) == (budget.steps, budget.interval)


def test_a_share_of_budgets_by_task_is_refused():
    """It would be one number of steps, which is the share of no budget."""
    training = reference.Training("coopetition-standard", "ippo", runs=1, hours=1.0, share=0.5)
    protocol = coopbench.load_protocol(reference.source(training.protocol))
    with pytest.raises(ValueError, match=r"budgets of their own, and ippo takes 0\.5 of one"):
        reference.steps_of(training, protocol)


@pytest.mark.slow("it plays a task of protocols again")
@pytest.mark.parametrize("file", FILES, ids=lambda file: f"{file.parent.name}-{file.stem}")
def test_kept_runs_play_the_means_of_the_tables(file):
    """All runs play again, of protocols of the package the first task alone."""
    protocol, learner = protocol_of(file), file.name.removesuffix(SUFFIX)
    if file.parent.name in coopbench.protocol_names():
        protocol = with_tasks(protocol, [protocol.task[0].id])
    report = coopbench.evaluate(protocol, [f"{learner}:{file}"], only=True)
    stored = {
        (row["task"], row["policy"], row["metric"]): float(row["mean"] or "nan")
        for row in reference.rows(file.parent.name, "estimates")
    }
    compared = [row for row in report.estimates if (row.task, row.policy, row.metric) in stored]
    assert "return" in {row.metric for row in compared}
    known = [stored[row.task, row.policy, row.metric] for row in compared]
    assert [row.mean for row in compared] == pytest.approx(known, rel=1e-9, nan_ok=True)

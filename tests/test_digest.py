"""The digest of a protocol: what it covers, what it leaves out, and what follows for results."""

import json

import builders
import pytest

import coopbench
from coopbench.baselines import registry
from coopbench.errors import OtherProtocolError, ProtocolError
from coopbench.protocol.limits import Limits
from coopbench.protocol.loading import load_protocol
from coopbench.protocol.report import Chart, Domain, Reporting, Reproduction
from coopbench.protocol.schema import Identity, Protocol
from coopbench.protocol.seeds import Evaluation, Seeds
from coopbench.protocol.task import Bounds, Budget, Instances, Task
from coopbench.protocol.training import Training
from coopbench.protocol.variants import are_same, differing_keys, is_part, with_tasks
from coopbench.results.folder import write_protocol
from coopbench.results.protocol_file import read_protocol
from coopbench.workflows.training_plan import Scope, runs

BUDGET = Budget(steps=4, interval=2)

# Other values of every field of every section: of those that the digest covers, and of all others.
COVERED = {
    "protocol": {"name": "another", "version": 2},
    "seeds": {
        "training": (1, 2),
        "evaluation": Evaluation(first=7, count=320),
        "selection": Evaluation(first=7, count=32),
    },
    "report": {"score": "return"},
    "training": {
        "on": "any",
        "plays": "all",
        "held_out": ("a",),
        "runs": 4,
        "episodes": 3,
        "budgets": {"learners": BUDGET},
        "reward": "team",
        "task": Task(id="other", env=builders.TRUST),
        "evaluates": "last",
        "preset": "routing",
    },
    "limits": {
        "planning": 2.0, "step": 2.0, "total": 2.0, "timeouts": 2, "stop_below": 0.5
    },
    "task": {
        "id": "another",
        "group": "another",
        "env": "coopbench/Skirmish-v1",
        "parameters": {"map": "8m"},
        "partners": ("random",),
        "episodes": 3,
        "instances": Instances(file="a.npz", sha256="0" * 64),
        "maps": "0" * 64,
        "trained_on": "8m",
        "budget": BUDGET,
        "preset": "routing",
        "info": {"a": "last"},
        "steps": 5,
    },
}  # fmt: skip
LEFT_OUT = {
    "protocol": {"description": "Other words.", "citation": "other", "differs": ("other",)},
    "seeds": {},
    "report": {
        "metrics": ("win",),
        "curve": "win",
        "baselines": (),
        "learned": (),
        "confidence": 0.9,
        "resamples": 100,
        "alpha": 0.1,
        "comparison": "welch",
        "effect": "cohens_d",
        "normalisation": "minmax",
        "margin": 0.5,
        "domain": {"v0": Domain(metrics=(), curve="win")},
        "chart": (Chart(metric="win", x="a"),),
        "reproduces": Reproduction(medians=True),
    },
    "training": {"tuning": "Other words."},
    "limits": {},
    "task": {
        "bounds": Bounds(low=-1.0, high=2.0, floor=-2.0),
        "axes": {"a": 1.0},
        "metrics": ("win",),
        "varies": "8m",
    },
}
WORDING = {("protocol", name) for name in LEFT_OUT["protocol"]} | {("training", "tuning")}
MODELS = {
    "protocol": Identity,
    "seeds": Seeds,
    "report": Reporting,
    "training": Training,
    "limits": Limits,
    "task": Task,
}
CHANGES = [
    (section, name, value, covered)
    for covered, table in ((True, COVERED), (False, LEFT_OUT))
    for section, fields in table.items()
    for name, value in fields.items()
]


@pytest.fixture(scope="module")
def whole():
    protocol = load_protocol("skirmish-small")
    limits = Limits(planning=1.0, step=1.0, total=1.0)
    return protocol.model_copy(update={"limits": limits})


def changed(protocol, section, **fields):
    """The protocol with other fields of a section, of the first task if it is that of tasks."""
    if section == "task":
        tasks = (protocol.task[0].model_copy(update=fields), *protocol.task[1:])
        return protocol.model_copy(update={"task": tasks})
    part = getattr(protocol, section).model_copy(update=fields)
    return protocol.model_copy(update={section: part})


def test_every_field_is_covered_or_left_out():
    """Who adds a field decides whether stored results depend on it."""
    assert set(Protocol.model_fields) == {*MODELS, "ad_hoc"}
    for section, model in MODELS.items():
        covered, left_out = COVERED[section].keys(), LEFT_OUT[section].keys()
        assert set(model.model_fields) == covered | left_out, section
        assert not covered & left_out


@pytest.mark.parametrize(("section", "name", "value", "covered"), CHANGES)
def test_the_digest_covers_what_is_trained_and_played(whole, section, name, value, covered):
    digest = whole.digest
    other = changed(whole, section, **{name: value})
    assert (other.digest != digest) == covered
    wording = (section, name) in WORDING
    assert are_same(whole, other) == wording == (other.content_digest == whole.content_digest)
    place = f"task.{whole.task[0].id}" if section == "task" else section
    if not wording:
        assert differing_keys(whole, other) == ("task" if name == "id" else f"{place}.{name}")


def test_a_setting_of_training_is_covered_like_a_task(whole):
    base = changed(whole, "training", task=whole.task[0])
    for fields, covered in ((COVERED["task"], True), (LEFT_OUT["task"], False)):
        for name, value in fields.items():
            task = whole.task[0].model_copy(update={name: value})
            assert (changed(base, "training", task=task).digest != base.digest) == covered, name
    assert whole.model_copy(update={"ad_hoc": True}).digest != whole.digest


# --- results -------------------------------------------------------------------------------------


def test_a_reworded_protocol_keeps_its_results(tmp_path):
    protocol = builders.protocol_of()
    first = coopbench.evaluate(protocol, ["random"], tmp_path)
    meta = (tmp_path / "dilemma" / "random" / "meta.json").read_bytes()
    words = {"protocol": {**protocol.protocol.model_dump(), "description": "Other words."}}
    content = protocol.model_dump(mode="json") | words
    content["report"] |= {"metrics": ["return", "final_trust"], "alpha": 0.1}
    content["task"][0]["bounds"]["high"] = 40.0
    other = Protocol.model_validate(content, strict=False)
    again = coopbench.evaluate(other, ["random"], tmp_path)
    assert (tmp_path / "dilemma" / "random" / "meta.json").read_bytes() == meta
    assert read_protocol(tmp_path) == other
    assert not list(tmp_path.glob(".*"))
    assert {row.metric for row in first.estimates} == {"return", "length"}
    assert {row.metric for row in again.estimates} == {"return", "final_trust"}
    assert coopbench.verify(tmp_path).identical
    with pytest.raises(OtherProtocolError, match="another protocol"):
        write_protocol(tmp_path, builders.protocol_of(count=7))
    for folder, relation in ((tmp_path / "sub", "lies in"), (tmp_path.parent, "holds")):
        with pytest.raises(ValueError, match=f"{relation} the results folder"):
            write_protocol(folder, other)
    assert read_protocol(tmp_path) == other


@pytest.mark.parametrize(
    ("section", "fields", "named"),
    [
        ("report", {"alpha": 0.1}, "report.alpha"),
        ("report", {"metrics": ("win",), "baselines": ()}, "report.metrics, report.baselines"),
        ("task", {"bounds": Bounds(low=0.0, high=0.5)}, "task.3m.bounds"),
        ("training", {"preset": None}, "training.preset"),
    ],
)
def test_verification_names_what_differs_from_the_shipped_protocol(
    section, fields, named, tmp_path
):
    shipped = load_protocol("skirmish-small")
    altered = changed(shipped, section, **fields)
    write_protocol(tmp_path, altered)
    check = coopbench.verify(tmp_path).checks[0]
    assert not check.holds
    assert check.reasons == (
        f"it is not the {shipped.name} of this package, though called so: it differs in {named}",
    )
    part = with_tasks(shipped, ["8m"])
    assert is_part(shipped, part)
    assert not is_part(shipped, changed(part, section, **fields))


def test_verification_notes_other_words(tmp_path):
    shipped = load_protocol("skirmish-small")
    write_protocol(tmp_path, changed(shipped, "protocol", description="Other words."))
    check = coopbench.verify(tmp_path).checks[0]
    assert check.verdict == "identical"
    assert check.reasons == (
        f"it is the {shipped.name} of this package",
        "only its wording differs: protocol.description",
    )


# --- presets -------------------------------------------------------------------------------------


def test_an_unknown_preset_is_refused_with_the_nearest_name(tmp_path):
    training = builders.make_training(preset="routin")
    with pytest.raises(ProtocolError, match=r"preset 'routin'.*Did you mean 'routing'"):
        builders.small_protocol(tmp_path, training=training)
    with pytest.raises(ValueError, match=r"Did you mean 'routing'"):
        registry.preset("routin", "ippo")


def test_runs_have_the_values_of_the_preset_or_defaults(tmp_path):
    def rate(**fields):
        training = builders.make_training(steps=5000, interval=5000, **fields)
        protocol = builders.protocol_of(training=training)
        (job, _) = runs(protocol, "ippo", tmp_path, Scope(), {})
        return job.settings["learning_rate"]

    assert rate(preset="coopetition-self-play") == 0.0005
    assert rate() == 0.0003
    assert registry.preset("coopetition-self-play", "qmix") == {}


def test_the_file_of_defaults_has_those_of_all_learners(torch):
    """Write it anew, as JSON with sorted keys, when a default changes or a learner is added."""
    names = [name for _, texts in registry._declared() for name in texts]
    made = {
        name: json.loads(json.dumps(registry.learners()[name].params()._asdict())) for name in names
    }
    assert registry._defaults().keys() == made.keys()
    assert {name: registry.usual_settings(name, None) for name in made} == made
    assert registry.usual_settings("elsewhere", None) == {}


def test_a_task_can_have_a_preset_of_its_own(tmp_path):
    tasks = [
        builders.make_task("first"),
        builders.make_task("second", horizon=7, preset="coopetition-self-play"),
    ]
    training = builders.make_training(steps=5000, interval=5000)
    protocol = builders.protocol_of(tasks=tasks, training=training)
    jobs = runs(protocol, "ippo", tmp_path, Scope(), {})
    rates = {job.cell.task: job.settings["learning_rate"] for job in jobs}
    assert rates == {"first": 0.0003, "second": 0.0005}


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"preset": "routin"}, "Did you mean 'routing'"),
        ({"preset": "routing", "trained_on": "first"}, "is played by models of 'first'"),
    ],
)
def test_the_preset_of_a_task_is_checked(tmp_path, fields, message):
    tasks = [builders.make_task("first"), builders.make_task("second", horizon=7, **fields)]
    with pytest.raises(ProtocolError, match=message):
        builders.small_protocol(tmp_path, tasks=tasks, training=builders.make_training())

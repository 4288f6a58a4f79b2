"""Contestants: the forms in which a caller names policies, and what they mean, resolved once."""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeAlias, TypeGuard

from coopbench.baselines.networks.policy import TrainedPolicy
from coopbench.baselines.own_code import CodePolicy
from coopbench.baselines.policy import Entry, label
from coopbench.baselines.registry import (
    entries,
    entry_of,
    from_code,
    is_shipped,
    parse_name,
    reads_file,
    trained_policy,
)
from coopbench.episodes.names import check_case, check_name
from coopbench.episodes.trained import Trained
from coopbench.playing.model_files import is_model_file, load_model_file
from coopbench.playing.wrapped import Named
from coopbench.protocol import schema
from coopbench_envs.parameters import is_whole, unknown

Origin: TypeAlias = Literal["trained", "fixed", "foreign"]


class PolicyObject(Protocol):
    """An object that plays: ``coopbench.baselines.policy.Policy``, or one with ``act`` alone."""

    @property
    def act(self) -> Callable[..., Any]:
        """``act(observations, memory)``, or ``act(observations)`` without ``initial``."""


# A registered policy by name, an object, or a function f(observations) -> actions.
PolicyLike: TypeAlias = str | PolicyObject | Callable[..., Any]


@dataclass(frozen=True)
class Checkpoints:
    """Policies of one training run, ``{steps trained so far: policy}``.

    All play the protocol's selection seeds; the one with the highest mean score there (ties go to
    the earliest) plays the evaluation seeds.
    """

    policies: Mapping[int, PolicyLike]


@dataclass(frozen=True)
class Failed:
    """A training run without a policy; the report lists it with the reason."""

    reason: str


# What plays one cell.
Model: TypeAlias = PolicyLike | Trained | Checkpoints | Failed


@dataclass(frozen=True)
class TrainedRuns:
    """All models of a method under a protocol: by task, by training run, or by both.

    ``trained`` is ``{task: model}``, ``{training seed: model}`` or ``{task: {training seed:
    model}}``. A model is a policy, ``Trained``, ``Checkpoints`` or ``Failed``. Where models play
    all tasks, the one trained on task t is the policy ``name:t``.
    """

    name: str
    trained: Mapping[Any, Any]


@dataclass(frozen=True, eq=False)
class Contestant:
    """The contestant of a cell: what its name means in a protocol, and what plays under it.

    ``origin`` is "trained" for the policy of a learner, "fixed" for one that the registry makes
    from its name alone, and else "foreign": one that is not registered, or is made of a file
    outside of the results.
    """

    name: str  # in the results
    family: str  # the same without the task that one of several models was trained on
    entry: Entry | None  # what is registered under that name
    origin: Origin
    shipped: bool  # whether it is part of this package, so that it can be made everywhere
    model: Model | None = None  # None: nothing is known but the name

    @property
    def elsewhere(self) -> bool:
        """Whether it is named after a policy that this package does not ship."""
        return self.origin == "foreign" or (self.origin == "fixed" and not self.shipped)

    @property
    def stores_actions(self) -> bool:
        """Whether results have to hold its actions, as a verifier may not have the policy.

        That is every policy that this package does not ship and whose weights the results do not
        hold.
        """
        return self.elsewhere and not isinstance(self.model, Trained)

    @property
    def granted(self) -> Mapping[str, Any]:
        """Parameters of an environment that it alone plays with; see ``Entry.granted``."""
        return self.entry.granted if self.shipped and self.entry is not None else {}

    @property
    def weights(self) -> TrainedPolicy | None:
        """The trained policy that plays, also of ``ippo:FOLDER``; None for every other model."""
        if isinstance(self.model, Trained):
            return self.model.policy
        return trained_policy(self.model) if isinstance(self.model, str) else None


def contestant_of(protocol: schema.Protocol, name: str) -> Contestant:
    """Return what the name of a policy in results of a protocol means; any text is a name."""
    family = protocol.family(name)[0]
    kind = parse_name(family).kind
    entry = entries().get(kind)
    origin: Origin = "foreign"
    if entry is not None and entry.trained:
        origin = "trained"
    elif entry is not None and not reads_file(family):
        origin = "fixed"
    return Contestant(name, family, entry, origin, is_shipped(kind))


# What callers of ``evaluate`` name: one model for all tasks, or all models of a method; one of
# them, several, or {name in the results: policy}. Public functions annotate it in quotes, so that
# help and editors print this name instead of 800 characters.
PolicyArgument: TypeAlias = Model | TrainedRuns
PolicyArguments: TypeAlias = (
    PolicyArgument | Iterable[PolicyArgument] | Mapping[str, PolicyArgument]
)
Runs: TypeAlias = Mapping[int | None, Model]  # models by training seed; a fixed policy has None


def name_of(policy: PolicyArgument) -> str:
    """Return the name under which a policy stands in the results."""
    return policy if isinstance(policy, str) else label(policy)


def policy_list(policies: PolicyArguments) -> list[PolicyArgument]:
    """Return policies as a list: of one policy, of several, or of a mapping from names.

    Raises ``ValueError`` for a name in a mapping that means another policy, and ``TypeError`` for
    what is no policy and holds none.
    """
    if isinstance(policies, Mapping):
        return [named(name, policy) for name, policy in policies.items()]
    if _is_one(policies):
        return [policies]  # type: ignore[list-item]
    if isinstance(policies, Iterable):
        return list(policies)
    raise TypeError(
        f"Policies are a name, a function, an object with act or predict, several of them in a "
        f"list, or a dictionary {{name: policy}}; given {type(policies).__name__}."
    )


def with_baselines(protocol: schema.Protocol, policies: PolicyArguments) -> list[PolicyArgument]:
    """Return policies, and after them the required baselines of a protocol that are not among them.

    These are the baselines that need no training; those that do are runs of learners.
    """
    chosen = policy_list(policies)
    names = {name_of(policy) for policy in chosen if not isinstance(policy, TrainedRuns)}
    return [*chosen, *(name for name in protocol.report.fixed if name not in names)]


def columns(
    protocol: schema.Protocol, policies: PolicyArguments
) -> list[tuple[Contestant, Mapping[str, Runs]]]:
    """Return the policies of a call as contestants, each with the models that play every task.

    ``FILE.py:NAME`` and ``module:NAME`` are policies from code, which is executed here, and
    ``FILE.zip`` is a model that Stable-Baselines3 has saved. Raises ``ValueError`` for no policies,
    for two of one name, and for models that are not those of the protocol.
    """
    chosen = [loaded_policy(policy) for policy in policy_list(policies)]
    if not chosen:
        raise ValueError("No policies to evaluate: name at least one, for instance 'random'.")
    resolved = [column for policy in chosen for column in _columns(protocol, policy)]
    labels = [name for name, _ in resolved]
    for name in labels:
        check_name(name)
    check_case("The policies", labels, "rename one")
    repeated = sorted({name for name in labels if labels.count(name) > 1})
    if repeated:
        texts = [policy for policy in chosen if isinstance(policy, str)]
        same = all(texts.count(name) == labels.count(name) for name in repeated)
        advice = (
            "name each of them once."
            if same
            else "give them other names, for instance with a dictionary {name: policy}; code from "
            "FILE.py:NAME is called by its file's and its own name."
        )
        raise ValueError(f"Two policies are called {', '.join(repeated)}: {advice}")
    return [(contestant_of(protocol, name), played) for name, played in resolved]


def _columns(
    protocol: schema.Protocol, policy: PolicyArgument
) -> list[tuple[str, Mapping[str, Runs]]]:
    """Return the names of a policy in the results, each with the models that play every task."""
    tasks = [task.id for task in protocol.task]
    if not isinstance(policy, TrainedRuns):
        return [(name_of(policy), {task: {None: policy} for task in tasks})]
    training = protocol.training
    per_task = training is not None and training.on == "each"
    if _by_seed(policy):
        if per_task:
            raise ValueError(
                f"{policy.name} is one model per training seed; {protocol.name} trains on each of "
                f"its tasks. Give {{task: {{training seed: model}}}}."
            )
        runs: Runs = {int(seed): model for seed, model in policy.trained.items()}
        return [(policy.name, dict.fromkeys(tasks, runs))]
    if training is None or not per_task:
        raise ValueError(
            f"{policy.name} is one model per task; {protocol.name} does not train on each of its "
            f"tasks. Name a single policy, or models by training seed."
        )
    trained = {task: _runs(policy.name, task, model) for task, model in policy.trained.items()}
    _check_trained(protocol, policy.name, trained)
    if training.plays == "own":
        played = {task.id: trained[task.origin] for task in protocol.task}
        return [(policy.name, played)]
    names = protocol.models_called(policy.name)
    return [(n, dict.fromkeys(tasks, trained[t])) for n, t in zip(names, tasks, strict=True)]


def _by_seed(models: TrainedRuns) -> bool:
    """Whether models are by training seed, not by task; ``ValueError`` if by neither."""
    kinds = {"seed" if is_seed(key) else type(key).__name__ for key in models.trained}
    if not kinds <= {"seed"} and not kinds <= {"str"}:
        raise ValueError(
            f"The models of {models.name} are by task (text) or by training seed (a whole number "
            f">= 0); given {list(models.trained)!r}."
        )
    return kinds == {"seed"}


def _check_trained(protocol: schema.Protocol, name: str, tasks: Collection[str]) -> None:
    """Raise ``ValueError`` unless ``tasks`` are exactly those that models are trained on."""
    others = {task.id: task.trained_on for task in protocol.task if task.trained_on is not None}
    required = [task.id for task in protocol.trained_tasks]
    for task in tasks:
        if task in others:
            raise ValueError(
                f"{name} has a model for {task!r}, which the models of {others[task]!r} play; "
                f"leave it out. Models are for {', '.join(required)}."
            )
        if task not in required:
            raise ValueError(unknown("task", task, required, f"the models of {name}"))
    lacking = [task for task in required if task not in tasks]
    if lacking:
        raise ValueError(f"{name} has no model for {', '.join(lacking)}; train one on each.")


def is_seed(key: Any) -> TypeGuard[int]:
    """Return whether a key is a training seed, or a number of steps: a whole number >= 0."""
    return is_whole(key) and int(key) >= 0


def _runs(name: str, task: str, model: Any) -> Runs:
    """Return the models of one task by training seed."""
    if not isinstance(model, Mapping):
        return {None: model}
    wrong = [key for key in model if not is_seed(key)]
    if wrong or not model:
        raise ValueError(
            f"The models of {name} on {task!r} are by training seed: whole numbers >= 0; given "
            f"{wrong[0] if wrong else 'none'!r}."
        )
    return {int(seed): run for seed, run in model.items()}


def _is_one(policies: Any) -> bool:
    if isinstance(policies, str | TrainedRuns | Trained | Checkpoints | Failed):
        return True
    return callable(policies) or hasattr(policies, "act") or hasattr(policies, "predict")


def loaded_policy(policy: Any) -> Any:
    """Return the policy that a text means which names code or a model file; others as they are."""
    if isinstance(policy, str) and entry_of(policy) is None and is_model_file(policy):
        return load_model_file(policy)
    return from_code(policy)


def spelled(text: str) -> PolicyArgument:
    """Return the policy that a text of the command line means; NAME=POLICY gives code a name.

    The name of a policy's parameter follows a colon: ``constant:fraction=0.5`` gives no name.
    Raises ``ValueError`` for a name that means another policy.
    """
    name, equals, policy = text.partition("=")
    return named(name, policy) if equals and ":" not in name else text


def named(name: Any, policy: Any) -> PolicyArgument:
    """Return a policy under a name of the caller's choice.

    ``FILE.py:NAME`` and ``module:NAME`` are policies from code, which is executed here, and
    ``FILE.zip`` is a model that Stable-Baselines3 has saved. Raises ``ValueError`` for a name that
    means another policy.
    """
    if not isinstance(name, str) or not name:
        raise ValueError(f"Policies are named by texts; given {name!r}.")
    policy = policy if isinstance(policy, str) and policy == name else loaded_policy(policy)
    if isinstance(policy, str | TrainedRuns):
        other = policy if isinstance(policy, str) else policy.name
        if other != name:
            raise ValueError(
                f"{other!r} is called {name!r} here, and results name it {other!r}: use that name, "
                f"or list policies without names."
            )
        return policy
    if parse_name(name).kind in entries():
        raise ValueError(
            f"{name!r} is a policy of this package, and another one was given under that name; "
            f"choose another name for it, or list {name!r} without an object to play the policy "
            f"of this package."
        )
    if isinstance(policy, Trained | Checkpoints | Failed):
        raise ValueError(
            f"{name!r} is {type(policy).__name__}, one training run; give "
            f"TrainedRuns({name!r}, {{training seed: ...}}) instead."
        )
    if isinstance(policy, type) or not _is_one(policy):
        unusable: PolicyArgument = policy
        return unusable  # the plan says what is wrong with it
    if isinstance(policy, Named):  # of a model file
        policy = policy.policy
    if isinstance(policy, CodePolicy):
        policy.name = name  # results hold its source, so that it stays what it is
        return policy
    return Named(name, policy)

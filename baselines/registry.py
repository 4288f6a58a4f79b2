"""Finds policies and learners by their names, and makes them.

Both are read from the sources of this package, and from the entry points of other packages. Nothing
is listed by hand, and a module of this package is imported when its policy or learner is first
used.
"""

import ast
import importlib
import json
import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache, lru_cache, partial
from importlib import resources
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, NamedTuple, TypeVar

from coopbench.baselines.game import Game
from coopbench.baselines.learner import Learner, LearnerEntry, Training
from coopbench.baselines.networks.kinds import read_policy
from coopbench.baselines.networks.policy import LARGEST, POLICY_FILE, TrainedPolicy
from coopbench.baselines.own_code import is_code, load_code
from coopbench.baselines.policy import Entry, Policy, PolicyName, label
from coopbench_envs.core import EnvSpec
from coopbench_envs.packages import installed, load
from coopbench_envs.parameters import Allowed, describe, named, resolve, unknown
from coopbench_envs.reading import read_regular

__all__ = [
    "POLICY_FILE",
    "entries",
    "entry_of",
    "from_code",
    "granted",
    "hyperparameters",
    "is_shipped",
    "learners",
    "make_learner",
    "make_policy",
    "parse_name",
    "preset",
    "presets",
    "reads_file",
    "summaries",
    "trained_policy",
]

_MOST_WRITTEN = 65_536  # characters of hyperparameters, which stand in the metadata of every cell

_POLICY_GROUP, _LEARNER_GROUP = "coopbench.policies", "coopbench.learners"  # of entry points

_TRAIN = ("torch", "stable_baselines3", "tensorboard")  # the libraries of the extra "train"

parse_name = PolicyName.parse


# What a module says of itself at its top level: a policy, or learners by name.
_ENTRY = re.compile(r"^ENTRY\b", re.MULTILINE)
_LEARNERS = re.compile(r"^LEARNERS = (\{.*?^\})", re.MULTILINE | re.DOTALL)


@cache
def _sources() -> dict[str, str]:
    """Return the source of every module of this package and its folders, by its full name."""
    root = Path(__file__).parent
    files = sorted([*root.glob("*.py"), *root.glob("*/*.py")])
    names = [".".join((__package__, *f.relative_to(root).with_suffix("").parts)) for f in files]
    texts = [file.read_text(encoding="utf-8") for file in files]
    return dict(zip(names, texts, strict=True))


_Entry = TypeVar("_Entry")


class _Registry(Mapping[str, _Entry]):
    """Entries by name; the module of each is imported when its entry is asked for."""

    def __init__(self, makers: Mapping[str, Callable[[], _Entry]]) -> None:
        self._makers = dict(sorted(makers.items()))

    def __getitem__(self, name: str) -> _Entry:
        return self._makers[name]()

    def __contains__(self, name: object) -> bool:
        return name in self._makers  # a mapping's own test would import the module

    def __iter__(self) -> Iterator[str]:
        return iter(self._makers)

    def __len__(self) -> int:
        return len(self._makers)


# --- policies -------------------------------------------------------------------------------------


def entries() -> Mapping[str, Entry]:
    """Return all policies by name: one ``ENTRY`` per file here, and those of other packages.

    The file of a policy has its name. What a learner has trained is a policy under the learner's
    name. Other packages add theirs through the entry-point group ``coopbench.policies``; each entry
    point names an ``Entry``. Looking up a policy of this package imports its module; names alone
    import none.
    """
    return _entries(tuple(learners()))


@cache
def _entries(trained: tuple[str, ...]) -> Mapping[str, Entry]:
    """Return all policies by name; to read a protocol asks for them a thousand times."""
    others = {entry.name: partial(_same, entry) for entry in _installed_policies()}
    learned = {name: partial(_trained_entry, name) for name in trained}
    return _Registry(others | dict(_shipped_policies()) | learned)


@cache
def _shipped_policies() -> Mapping[str, Callable[[], Entry]]:
    """Return what imports the fixed policies of this package, by name."""
    modules = [module for module, source in _sources().items() if _ENTRY.search(source)]
    return {module.rpartition(".")[2]: partial(_entry_in, module) for module in modules}


def _entry_in(module: str) -> Entry:
    entry: Entry = importlib.import_module(module).ENTRY
    return entry


def _same(entry: Entry) -> Entry:
    return entry


def entry_of(policy: str) -> Entry | None:
    """Return the entry that the name of a policy means; None if none is registered."""
    return entries().get(parse_name(policy).kind)


@lru_cache(maxsize=4096)
def granted(policy: str) -> Mapping[str, Any]:
    """Return the parameters of an environment that a policy of this package alone plays with.

    Empty for nearly all policies, and for all from elsewhere. See ``Entry.granted``.
    """
    find = _shipped_policies().get(parse_name(policy).kind)
    return {} if find is None else find().granted


@lru_cache(maxsize=4096)
def reads_file(name: str) -> bool:
    """Whether a policy is read from the file or folder in its name, of unstated content.

    ``frozen:DIGEST,FOLDER`` states it.
    """
    policy = parse_name(name)
    return policy.kind in learners() or ".json" in policy.values


def is_shipped(kind: str) -> bool:
    """Whether a policy is part of this package, so that it can be made wherever this package is."""
    return kind in _shipped_policies() or kind in learners()


def from_code(policy: Any) -> Any:
    """Return the policy that ``FILE.py:NAME`` or ``module:NAME`` means; anything else as it is.

    This executes code: call it with what a user has written, never with a name from results. A
    registered policy comes before a module of the same name. Raises ``ValueError`` if there is no
    such file, module or name.
    """
    if not isinstance(policy, str) or entry_of(policy) is not None:
        return policy
    if policy.endswith(".py"):
        raise ValueError(f"{policy!r} is a file; name the policy in it as {policy}:NAME.")
    if not is_code(policy):
        return policy
    try:
        return load_code(policy)
    except ValueError as error:
        if policy.rpartition(":")[0].endswith(".py"):
            raise
        kind = parse_name(policy).kind
        raise ValueError(
            f"{unknown('policy', kind, entries(), listing='coopbench list')} As code: {error}"
        ) from None


@cache
def _installed_policies() -> tuple[Entry, ...]:
    """Entries of other packages; looking for them takes milliseconds, so once is enough."""
    return tuple(installed(_POLICY_GROUP, Entry).values())


def make_policy(name: str, game: Game) -> Policy:
    """Create the policy that ``name`` describes for ``game``.

    A name is ``policy`` or ``policy:value,value`` with the values of its parameters in their order,
    or ``policy:parameter=value``. Raises ``ValueError`` for a name, a parameter or a value that is
    not allowed, and for a game that the policy cannot play.
    """
    entry, parameters = _resolved(name)
    policy: Policy = entry.create(game, parameters)
    return policy


def hyperparameters(policy: Any) -> dict[str, Any] | None:
    """Return what a policy was made with, as data that JSON can hold; None if it does not say.

    Of a name, its parameters; of an object, its attribute ``hyperparameters``, a dictionary. Raises
    ``ValueError`` if that is anything else.
    """
    if isinstance(policy, str):
        return dict(_resolved(policy)[1]._asdict())
    values = getattr(policy, "hyperparameters", None)
    if values is None:
        return None
    try:
        text = json.dumps(values, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(
            f"The hyperparameters of policy {label(policy)!r} cannot be written as JSON ({error}); "
            f"allowed: a dictionary of finite numbers, texts, lists and dictionaries."
        ) from None
    if not isinstance(values, dict) or len(text) > _MOST_WRITTEN:
        raise ValueError(
            f"The hyperparameters of policy {label(policy)!r} are a {type(values).__name__} of "
            f"{len(text):,} characters as JSON; allowed: a dictionary of up to {_MOST_WRITTEN:,}."
        )
    return dict(json.loads(text))


@lru_cache(maxsize=4096)  # the partners of a protocol are the same on many tasks
def _resolved(text: str) -> tuple[Entry, Any]:
    """Return the entry that the name of a policy means, and its parameters."""
    name = parse_name(text)
    entry: Entry = named("policy", name.kind, entries(), listing="coopbench list")
    if entry.trained and not name.values:
        raise ValueError(
            f"Policy {name.kind!r} has to be trained: name the folder of a run, "
            f"{name.kind}:FOLDER; 'coopbench train PROTOCOL {name.kind}' makes some."
        )
    try:
        values = _values(entry, name.values)
        return entry, resolve(entry.params, values, f"policy {name.kind!r}")
    except TypeError as error:  # a missing value or an unknown parameter: bad input, not a bad call
        raise ValueError(f"Policy {text!r}: {error}") from None


def _values(entry: Entry, written: str) -> dict[str, Any]:
    """Return the values behind the colon of a name, by parameter."""
    fields = list(entry.params._fields)  # type: ignore[attr-defined]
    if entry.trained:  # folders may hold commas
        return {fields[0]: written} if written else {}
    texts = {name for name, (kind, *_) in describe(entry.params).items() if kind == "str"}
    values: dict[str, Any] = {}
    for position, part in enumerate(filter(None, written.split(","))):
        key, equals, text = part.partition("=")
        if not equals:
            key, text = (
                (fields[position] if position < len(fields) else f"value {position + 1}"),
                key,
            )
        name, value = key.strip(), text.strip()
        if name in values:
            raise TypeError(f"it gives {name} twice; give it once.")
        values[name] = value if name in texts else _number(value)
    return values


def _number(text: str) -> int | float | str:
    """Return the number that a text spells, or the text."""
    if re.fullmatch(r"[+-]?\d+", text):
        return int(text)
    try:
        return float(text)
    except ValueError:
        return text


# --- learners -------------------------------------------------------------------------------------


def learners() -> Mapping[str, LearnerEntry]:
    """Return all learners by name: those in ``LEARNERS`` of the files here, and of other packages.

    These name a ``LearnerEntry`` in the entry-point group ``coopbench.learners``, under its own
    name. Looking an entry up imports its module; names alone import none.
    """
    return _learners()


def summaries() -> dict[str, str]:
    """Return what each learner does, in one line, by name; no learner of this package is loaded.

    Of a learner of another package that cannot be loaded: why.
    """
    said = {name: text for _, texts in _declared() for name, text in texts.items()}
    return {name: said.get(name) or _summary(name) for name in learners()}


def _summary(name: str) -> str:
    """Return what a learner of another package does, or why it cannot be used."""
    try:
        return learners()[name].summary
    except ValueError as error:  # one broken package must not hide the others
        return f"cannot be used: {error}"


@cache
def _learners() -> Mapping[str, LearnerEntry]:
    """Return all learners by name; the files are searched once."""
    shipped = {
        name: partial(_entry, module, name) for module, texts in _declared() for name in texts
    }
    points = entry_points(group=_LEARNER_GROUP)
    others = {p.name: partial(_installed_learner, p) for p in points}
    return _Registry(others | shipped)  # of two with one name that of this package counts


@cache
def _declared() -> tuple[tuple[str, dict[str, str]], ...]:
    """Return the modules here that define learners, and what each of these does, by name."""
    found = ((name, _LEARNERS.search(source)) for name, source in _sources().items())
    return tuple((name, ast.literal_eval(match[1])) for name, match in found if match)


def _installed_learner(point: EntryPoint) -> LearnerEntry:
    """Return the entry of a learner of another package."""
    _check_libraries(point.name)
    entry: LearnerEntry = load(point, _LEARNER_GROUP, LearnerEntry)
    return entry


def _check_libraries(learner: str) -> None:
    """Raise ``ValueError`` without the libraries that learners need."""
    lacking = [library for library in _TRAIN if find_spec(library) is None]
    if lacking:
        raise ValueError(
            f"Learner {learner!r} needs {', '.join(lacking)}, not installed here: "
            f'the extra "train" brings them: pip install ".[train]" in a checkout.'
        )


@cache
def _entry(module: str, name: str) -> LearnerEntry:
    """Return the entry that a module of this package makes for one of its learners."""
    _check_libraries(name)
    entry: LearnerEntry = importlib.import_module(module).entry(name)
    return entry


def make_learner(
    name: str,
    env_id: str | EnvSpec,
    parameters: Mapping[str, Any],
    seed: int,
    **hyperparameters: Any,
) -> Learner:
    """Make the learner ``name`` for a game.

    Raises ``ValueError`` for an unknown name, a value that is not allowed and a game that it cannot
    learn, and ``TypeError`` for an unknown hyperparameter.
    """
    entry: LearnerEntry = named("learner", name, learners())
    values = resolve(entry.params, hyperparameters, f"learner {name!r}")
    return entry.create(Training(name, env_id, parameters, seed, values))


@cache
def presets() -> dict[str, Path]:
    """Return the presets of hyperparameters of this package as {name: file}."""
    folder = Path(str(resources.files("coopbench.baselines"))) / "presets"
    return {file.stem: file for file in sorted(folder.glob("*.json"))}


def preset(name: str | None, learner: str) -> dict[str, Any]:
    """Return the hyperparameters that the preset ``name`` has for a learner.

    They stand in ``baselines/presets``, with where they come from; a protocol names its preset in
    [training]. Empty if it has none for the learner, or without a name: the defaults count. Raises
    ``ValueError`` with the nearest name for an unknown one.
    """
    return {} if name is None else dict(_preset(name).get(learner, {}))


def usual_settings(learner: str, name: str | None) -> dict[str, Any]:
    """Return all hyperparameters of a learner here: of the preset ``name``, else the defaults.

    As JSON has them; nothing for a learner of another package. The defaults stand in a file, as
    learners themselves need libraries that readers of results may lack.
    """
    defaults = _defaults().get(learner)
    return {} if defaults is None else defaults | preset(name, learner)


@cache
def _defaults() -> dict[str, dict[str, Any]]:
    """Return the defaults of the learners here, {learner: {hyperparameter: value}}."""
    file = resources.files("coopbench.baselines") / "defaults.json"
    content: dict[str, dict[str, Any]] = json.loads(file.read_text(encoding="utf-8"))
    return content


@cache
def _preset(name: str) -> dict[str, dict[str, Any]]:
    """Return the hyperparameters of a preset by learner."""
    file: Path = named("preset", name, presets())
    learned: dict[str, dict[str, Any]] = json.loads(file.read_text(encoding="utf-8"))["learners"]
    return learned


# --- what learners have trained -------------------------------------------------------------------


class Params(NamedTuple):
    """What stands after the colon of a trained policy's name."""

    folder: Annotated[str, Allowed("the folder of a training run, which holds policy.npz")]


def trained_policy(text: str) -> TrainedPolicy | None:
    """Return the policy that a name like ``ippo:FOLDER`` means; None if it names no learner.

    Raises ``ValueError`` if it cannot be read.
    """
    name = parse_name(text)
    return _read(name.kind, Path(name.values)) if name.kind in learners() else None


@cache
def _trained_entry(learner: str) -> Entry:
    """Return the entry of policies that a learner has trained: ``ippo:FOLDER``."""
    summary = f"what {learner} has trained, from a run's folder"
    return Entry(learner, partial(_trained, learner), summary, "local", Params, True)


def _trained(name: str, game: Game, parameters: Params) -> TrainedPolicy:
    """Read the policy of a training run; ``ValueError`` if it cannot play the game."""
    policy = _read(name, Path(parameters.folder))
    policy.check(game)
    return policy


def _read(name: str, folder: Path) -> TrainedPolicy:
    """Return the policy that the learner ``name`` has left in a folder."""
    file = folder / POLICY_FILE
    if not file.is_file():
        runs = sorted(path.parent for path in folder.glob(f"*/{name}/run-*/{POLICY_FILE}"))
        hint = f"; it holds runs: name one, for instance {name}:{runs[0]}" if runs else ""
        raise ValueError(
            f"Policy '{name}:{folder}' cannot be read: there is no {file}{hint}. Allowed: the "
            f"folder of a run of 'coopbench train'."
        )
    try:
        policy = read_policy(read_regular(file, LARGEST))
    except ValueError as error:
        raise ValueError(
            f"Policy '{name}:{folder}': {file} cannot be read ({error}). Allowed: a file that "
            f"'coopbench train' has written."
        ) from None
    if policy.name != name:
        raise ValueError(
            f"Policy '{name}:{folder}': {file} was trained by {policy.name!r}; name it "
            f"'{policy.name}:{folder}'."
        )
    return policy

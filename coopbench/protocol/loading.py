"""Loading: a protocol by its name, from a TOML file, or for one game."""

import re
import tomllib
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import ValidationError

import coopbench_envs
from coopbench.baselines.registry import hyperparameters, learners
from coopbench.episodes.names import names_given
from coopbench.errors import ProtocolError
from coopbench.protocol.map_files import users_checksum
from coopbench.protocol.messages import explained
from coopbench.protocol.report import measured_by
from coopbench.protocol.schema import Protocol
from coopbench.protocol.task import LONGEST, instance_content
from coopbench_envs.choices import as_played
from coopbench_envs.core import EnvSpec
from coopbench_envs.foreign.environment import foreign_spec
from coopbench_envs.foreign.probing import info_names
from coopbench_envs.foreign_names import is_foreign, parse_foreign, permit
from coopbench_envs.parameters import check_count, named, nearest, unknown
from coopbench_envs.reading import read_regular

_LARGEST = 1 << 24  # bytes of a protocol file
# Merged key by key, when extending.
_MERGED = ("protocol", "seeds", "report", "training", "limits", "pools")

# Keys of the protocol that ``ad_hoc`` makes -> the arguments that they come from; "" where the
# message names what is meant.
_ARGUMENTS = {
    "protocol": "",
    "task.0": "",
    "task.0.partners": "partners",
    "seeds.evaluation.first": "seed",
    "seeds.evaluation.count": "episodes",
}


def protocol_files() -> dict[str, Path]:
    """Return the protocols that come with this package as {name: file}."""
    folder = Path(str(resources.files("coopbench.protocols")))
    return {file.stem: file for file in sorted(folder.glob("*.toml"))}


def load_protocol(source: str | Path | Protocol) -> Protocol:
    """Load a protocol by its name (``-v1`` may be left out), or from a TOML file.

    Loading a file permits this package to make the environments of other packages that it names.

    Raises ``ProtocolError``, which names the file, the key and what is allowed.
    """
    if isinstance(source, Protocol):
        return source
    path = Path(source)
    if path.suffix != ".toml":
        return _loaded(_shipped(str(source)))
    return _permitted(_validated(_with_pools(_content(path), path), str(path)))


@cache
def _loaded(path: Path) -> Protocol:
    """Return a protocol of this package, whose file does not change."""
    return _validated(_with_pools(_content(path), path), str(path))


def _permitted(protocol: Protocol) -> Protocol:
    """Let the environments of other packages be made that a user's protocol names."""
    for task in protocol.task:
        if is_foreign(task.env):
            permit(task.env)
    return protocol


def check_present(protocol: Protocol) -> None:
    """Raise ``ProtocolError`` for required policies, learners and instances that are not here.

    Reading a protocol does not ask for them: others may have evaluated it with their packages.
    """
    problems, report = list[str](), protocol.report
    for name in report.fixed:
        try:
            hyperparameters(name)
        except ValueError as error:
            problems.append(f"report.baselines: {error}")
    for name in report.learned:
        if name not in learners():
            problems.append(f"report.learned: {unknown('learner', name, learners())}")
    for task in protocol.task:
        try:
            instance_content(task)
        except ProtocolError as error:
            problems.append(f"task.instances: {error}")
    if problems:
        lines = "".join(f"\n  {problem}" for problem in problems)
        raise ProtocolError(f"{protocol.name} names what is not here:{lines}")


def find_protocol(source: str | Path | Protocol) -> Protocol:
    """Return the protocol that a name, a file or the id of an environment stands for."""
    if isinstance(source, str) and names_environment(source):
        return ad_hoc(source)
    return load_protocol(source)


def names_environment(name: str) -> bool:
    """Whether a text names an environment, and not a protocol."""
    if name.endswith(".toml") or name in protocol_files():
        return False
    return (
        is_foreign(name)
        or "/" in name
        or ":" in name
        or f"coopbench/{name}" in coopbench_envs.ids()
    )


def ad_hoc(
    env: str,
    episodes: int = 100,
    seed: int = 0,
    *,
    partners: Sequence[str] | Mapping[str, Sequence[str]] = (),
    metrics: Sequence[str] | None = None,
    comparison: str = "paired",
    effect: str = "hedges_g",
    **parameters: Any,
) -> Protocol:
    """Make a protocol of one task from an environment id; its report is not a standard report.

    ``partners`` are registered policies for the other seats, or {role: policies}; without them the
    policy plays in all seats. ``metrics`` are shown after the return; None shows those of the game
    and, where agents have rewards of their own, the fairness of their returns. ``comparison`` is
    "paired" or "welch", ``effect`` "hedges_g" or "cohens_d", which is shown next to the former.
    """
    # NumPy's numbers are as good as Python's.
    episodes, seed = (n.item() if isinstance(n, np.integer) else n for n in (episodes, seed))
    parameters = _plain(parameters)
    check_count("episodes", episodes)
    effects = {"hedges_g": None, "cohens_d": "cohens_d"}
    shown_effect = named("effect", effect, effects)
    named("comparison", comparison, {"paired": None, "welch": None})
    measured: dict[str, Any] = {}
    if is_foreign(env):
        permit(env)
        measured = {"info": info_names(env, parameters)}
    spec = foreign_spec(env, measured["info"]) if measured else coopbench_envs.spec(env)
    title = env if measured or ":" not in env else spec.id  # the same wherever its file lies
    shown = ("return", "length")
    independent = [m for m in spec.metrics if m not in shown and m not in spec.dependent]
    dependent = {first: metric for metric, first in spec.dependent.items()}
    fairness = ["fairness"] if _compares_agents(env, spec, parameters) else []
    if metrics is None:
        metrics = [
            name
            for metric in ["return", *independent, *fairness, "length"]
            for name in (metric, dependent.get(metric))
            if name
        ]
    if not is_foreign(env):
        measured["maps"] = users_checksum(env, parameters)
    content = {
        "protocol": {
            "name": "ad-hoc",
            "version": 1,
            "description": f"{episodes} episodes of {title}",
        },
        "seeds": {"evaluation": {"first": seed, "count": episodes}},
        "report": {
            "score": "return",
            "metrics": list(names_given(metrics)),
            "curve": measured_by(spec)[0],
            "comparison": comparison,
            "effect": shown_effect,
        },
        "task": [
            {
                "id": _task_id(spec.id),
                "env": spec.id,
                "parameters": parameters,
                "partners": _pools(partners),
                "bounds": {"low": 0.0, "high": 1.0},
                **measured,
            }
        ],
        "ad_hoc": True,
    }
    return _validated(content, f"this evaluation of {env}", _ARGUMENTS)


def _compares_agents(env: str, spec: EnvSpec, parameters: Mapping[str, Any]) -> bool:
    """Whether an environment has several agents with rewards of their own."""
    if is_foreign(env):
        return parse_foreign(env).kind == "pettingzoo"
    if spec.common_reward:
        return False
    try:
        _, _, constants = as_played(spec, parameters)
    except (TypeError, ValueError):  # the protocol that is made of them says what is wrong
        return False
    return len(spec.agents(constants)) > 1


def _task_id(env_id: str) -> str:
    """Return the id of the task of an environment: its name, or its beginning, in small letters."""
    name = parse_foreign(env_id).short if is_foreign(env_id) else env_id.split("/", 1)[1]
    return re.sub(r"[^a-z0-9_.-]+", "-", name.lower())[:LONGEST].strip("-._")


def _plain(value: Any) -> Any:
    """Return a value with numbers and arrays of NumPy as numbers and lists of Python."""
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, Mapping):
        return {key: _plain(part) for key, part in value.items()}
    return [_plain(part) for part in value] if isinstance(value, list | tuple) else value


def _pools(partners: Sequence[str] | Mapping[str, Sequence[str]]) -> Any:
    """Return partners as a protocol's file holds them; a text is one partner."""
    if isinstance(partners, Mapping):
        return {role: _pools(names) for role, names in partners.items()}
    return [partners] if isinstance(partners, str) else list(partners)


def _validated(
    content: dict[str, Any], where: str, arguments: Mapping[str, str] | None = None
) -> Protocol:
    try:
        return Protocol.model_validate(content)
    except ValidationError as error:
        raise ProtocolError(f"{where} cannot be used:\n{explained(error, arguments)}") from None


# --- files ----------------------------------------------------------------------------------------


def _parsed(path: Path) -> dict[str, Any]:
    """Return the content of a TOML file; ``ProtocolError`` if it cannot be read."""
    try:
        return tomllib.loads(read_regular(path, _LARGEST).decode())
    except FileNotFoundError:
        raise ProtocolError(f"There is no protocol file {path}.") from None
    except tomllib.TOMLDecodeError as error:
        raise ProtocolError(f"{path} is not valid TOML: {error}") from None
    except UnicodeDecodeError as error:
        raise ProtocolError(f"{path} is not text in UTF-8: byte {error.start:,} is not.") from None
    except RecursionError:
        raise ProtocolError(f"{path} is nested too deeply to be a protocol.") from None
    except OSError as error:
        raise ProtocolError(f"{path} cannot be read: {error.strerror}.") from None
    except ValueError as error:
        raise ProtocolError(str(error)) from None


def _content(path: Path, extending: tuple[Path, ...] = ()) -> dict[str, Any]:
    """Return the content of a protocol file, merged over that of the protocol it extends."""
    chain = (*extending, path.resolve())
    if chain[-1] in extending:
        names = " extends ".join(file.name for file in chain)
        raise ProtocolError(f"{extending[0]}: {names}, a circle; remove one 'extends'.")
    content = _parsed(path)
    if "ad_hoc" in content:
        raise ProtocolError(f"{path}: 'ad_hoc' cannot be set in a file; remove it.")
    if "extends" not in content:
        return content
    base = _content(_base(content.pop("extends"), path), chain)
    merged = base | content
    for name in _MERGED:
        if isinstance(base.get(name), dict) and isinstance(content.get(name), dict):
            merged[name] = base[name] | content[name]
    own = content.get("report")
    if "task" in content and not (isinstance(own, dict) and "domain" in own):
        merged["report"] = _with_domains_of(merged.get("report"), content["task"])
    return merged


def _with_domains_of(report: Any, tasks: Any) -> Any:
    """Return the report of a base without the domains of groups that these tasks do not have."""
    domains = report.get("domain") if isinstance(report, dict) else None
    if not isinstance(domains, dict) or not isinstance(tasks, list):
        return report
    groups = {task.get("group") for task in tasks if isinstance(task, dict)}
    kept = {group: domain for group, domain in domains.items() if group in groups}
    rest = {key: value for key, value in report.items() if key != "domain"}
    return rest | ({"domain": kept} if kept else {})


def _with_pools(content: dict[str, Any], path: Path) -> dict[str, Any]:
    """Return the content with the names of pools in its tasks replaced by their partners.

    Pools spare a file repetitions; they are no part of the protocol and its digest.
    """
    pools = content.pop("pools", {})
    if not isinstance(pools, dict) or not all(isinstance(names, list) for names in pools.values()):
        raise ProtocolError(f"{path}: 'pools' takes a table {{name: [policies]}}; given {pools!r}.")
    tasks = content.get("task")
    if not isinstance(tasks, list):
        return content
    content["task"] = [_with_partners(task, pools, path) for task in tasks]
    return content


def _with_partners(task: Any, pools: dict[str, Any], path: Path) -> Any:
    """Return a task with its partners in place of the name of their pool, or of each role's."""
    partners = task.get("partners") if isinstance(task, dict) else None
    if not isinstance(partners, (str, dict)):
        return task

    def listed(name: Any) -> Any:
        if not isinstance(name, str):
            return name
        return named("pool", name, pools, f"task {task.get('id')!r}")

    try:
        if isinstance(partners, str):
            return task | {"partners": listed(partners)}
        return task | {"partners": {role: listed(name) for role, name in partners.items()}}
    except ValueError as error:
        raise ProtocolError(f"{path}: {error}") from None


def _base(name: Any, path: Path) -> Path:
    """Return the file of the protocol ``name``, which the file ``path`` extends."""
    if not isinstance(name, str):
        raise ProtocolError(f"{path}: 'extends' takes the name of a protocol; given {name!r}.")
    if name.endswith(".toml"):
        if not (path.parent / name).is_file():
            raise ProtocolError(f"{path} extends {name!r}; there is no file {path.parent / name}.")
        return path.parent / name
    environments = coopbench_envs.ids()
    if name == "ad-hoc" or name in environments or f"coopbench/{name}" in environments:
        raise ProtocolError(
            f"{path} extends {name!r}: an ad-hoc evaluation cannot be extended; name a protocol."
        )
    try:
        return _shipped(name)
    except ProtocolError as error:
        raise ProtocolError(f"{path} extends {name!r}: {error}") from None


def protocols_with_task(name: str) -> list[str]:
    """Return the protocols of this package that have a task of this id, standard ones first."""
    owners = [p for p in protocol_files() if name in (t.id for t in load_protocol(p).task)]
    return sorted(owners, key=lambda owner: not owner.endswith("-standard"))


def _shipped(name: str) -> Path:
    """Return the file of a protocol of this package, by its name with or without its version."""
    files = protocol_files()
    bare, _, version = name.rpartition("-v")
    if name not in files and bare in files and version.isdigit():
        shipped = load_protocol(bare).protocol.version
        if int(version) != shipped:
            raise ProtocolError(
                f"There is no version {version} of {bare}; this package has {shipped}."
            )
        return files[bare]
    try:
        file: Path = named("protocol", name, files)
    except ValueError as error:
        hint = "A file of your own must end in .toml."
        owners = protocols_with_task(name)
        environments = coopbench_envs.ids()
        near = nearest(name, environments)
        if ":" in name or {name, f"coopbench/{name}"} & set(environments):
            hint = f"It is an environment: 'coopbench evaluate {name}' plays it."
        elif owners:
            hint = f"It is a task: 'coopbench evaluate {owners[0]} --task {name}' plays it."
        elif near:
            hint = f"{near.strip()} That is an environment, which can be evaluated, too."
        raise ProtocolError(f"{error} {hint}") from None
    return file

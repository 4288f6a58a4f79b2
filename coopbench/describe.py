"""Describe: facts of environments, policies and protocols as Markdown, from the code itself."""

import inspect
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any

import coopbench_envs
from coopbench.analysis.environments import code_text
from coopbench.baselines.learner import LearnerEntry
from coopbench.baselines.own_code import load_code
from coopbench.baselines.policy import Entry
from coopbench.baselines.registry import entries, learners
from coopbench.episodes.grouping import grouped
from coopbench.episodes.metrics import known_agent_metrics, known_metrics
from coopbench.playing.rollout import engine_of
from coopbench.protocol.loading import (
    ad_hoc,
    check_present,
    load_protocol,
    protocol_files,
    protocols_with_task,
)
from coopbench.protocol.schema import Protocol
from coopbench.protocol.seeds import Evaluation
from coopbench.protocol.task import Task
from coopbench.protocol.variants import maps_text
from coopbench.report.facts import training_text, tuning_fact
from coopbench.report.markdown import rows_table
from coopbench.report.sections import asked
from coopbench_envs.choices import offered
from coopbench_envs.engine import Engine
from coopbench_envs.exactness import promised_bits
from coopbench_envs.foreign.codec import BY_AGENT, CHOICES, VECTORS
from coopbench_envs.foreign.loading import code_of
from coopbench_envs.foreign_names import is_foreign
from coopbench_envs.layouts import Part
from coopbench_envs.parameters import Allowed, unknown
from coopbench_envs.parameters import describe as describe_parameters
from coopbench_envs.roles import members_of_roles

_FORMS = {
    CHOICES: "integers (episodes, agents)",
    VECTORS: "numbers (episodes, agents, *shape)",
    BY_AGENT: "a list of dictionaries {agent: action}, one per episode",
}
_STACKED = "one array (episodes, agents, *shape)"
_APART = "an array of dictionaries {agent: observation}, one per episode"


def describe(name: str) -> str:
    """Describe the thing called ``name``; raises ``ValueError`` with the nearest name."""
    environments = {i.removeprefix("coopbench/"): i for i in coopbench_envs.ids()}
    env = environments.get(name.removeprefix("coopbench/"))
    if env is not None:
        return describe_environment(env)
    if is_foreign(name):
        return describe_foreign(name)
    if name in learners():
        return describe_learner(learners()[name])
    if name in entries():
        return describe_policy(entries()[name])
    if name in protocol_files() or name.endswith(".toml"):
        protocol = load_protocol(name)
        check_present(protocol)
        return describe_protocol(protocol)
    if ".py:" in name:
        return _describe_code(name)
    if name.endswith(".py"):
        raise ValueError(
            f"{name!r} is a file; name the policy in it as {name}:NAME, or its environment as "
            f"{name}:SPEC."
        )
    if owners := protocols_with_task(name):
        raise ValueError(
            f"{name!r} is a task of {', '.join(owners)}; 'coopbench show {owners[0]}' describes it."
        )
    known = {*environments, *entries(), *protocol_files()}
    raise ValueError(unknown("name", name, known, listing="coopbench list"))


def _describe_code(name: str) -> str:
    """Fact table of what a file defines: an environment if its name begins with SPEC."""
    place, _, attribute = name.rpartition(":")
    if attribute.startswith("SPEC"):
        return describe_environment(coopbench_envs.register_file(place, attribute).id)
    policy = load_code(name)
    summary = (inspect.getdoc(policy.policy) or "").partition("\n")[0]
    return _facts(
        {"Name": f"`{policy.name}`", "What it does": summary, "SHA-256": f"`{policy.digest}`"}
    )


def _facts(facts: Mapping[str, str]) -> str:
    """Table of facts, without those that are empty."""
    return rows_table(["Fact", "Value"], (fact for fact in facts.items() if fact[1]))


def describe_environment(env_id: str) -> str:
    """Fact table of an environment at its default parameters."""
    engine = Engine(env_id)
    spec = engine.spec
    facts = {
        "Id": f"`{spec.id}`",
        "Agents": _agents(engine.agents),
        "Action (per agent)": _spaces(engine.action_spaces, engine.agents),
        "Observation (per agent)": f"`{_space(engine.observation_spaces[0])}`",
        "Global state": f"`{_space(engine.state_space)}`",
        "Horizon": str(engine.horizon),
        "On other processors and GPUs": promised_bits(engine.kernels),
        "Source": spec.source,
        "Protocols": ", ".join(f"`{name}`" for name in _protocols_with(env_id)) or "none",
    }
    parts = [_facts(facts), _parameter_table(offered(spec))]
    if engine.action_layout:
        parts.append(_part_table("Action part", engine.action_layout))
    parts += [
        _part_table("Observation part", engine.layout),
        _metric_table("Metric", known_metrics(env_id)),
        _metric_table("Metric per agent", known_agent_metrics(env_id)),
    ]
    return "\n\n".join(parts)


def _metric_table(head: str, metrics: Mapping[str, str]) -> str:
    rows = [(f"`{name}`", text) for name, text in metrics.items()]
    return rows_table([head, "Meaning"], rows)


def describe_foreign(name: str) -> str:
    """Fact table of an environment of another package, which is made and plays a random episode."""
    task = ad_hoc(name).task[0]
    engine = engine_of(task)
    constants = engine.constants
    engine.close()
    stacked = constants.codec.stacked
    facts = {
        "Id": f"`{name}`",
        "Code": code_text(code_of(name)),
        "Agents": _agents(engine.agents),
        "Action (per agent)": _spaces(engine.action_spaces, engine.agents),
        "Actions of policies": _FORMS[constants.codec.form],
        "Observation (per agent)": _spaces(engine.observation_spaces, engine.agents),
        "Observations of policies": _STACKED if stacked else _APART,
        "Horizon": f"{engine.horizon:,}"
        + ("" if constants.stated else " (the environment does not say)"),
        "What does not hold": "equal bits on other machines, speed, saved states, replays",
    }
    return f"{_facts(facts)}\n\n{_metric_table('Metric', known_metrics(task.spec))}"


def describe_policy(entry: Entry) -> str:
    """Fact table of a policy."""
    text = _facts({"Name": f"`{entry.name}`", "What it does": entry.summary, "Uses": entry.acts_on})
    fields = entry.params._fields  # type: ignore[attr-defined]
    return f"{text}\n\n{_parameter_table(entry.params)}" if fields else text


def describe_learner(entry: LearnerEntry) -> str:
    """Fact table of a learner."""
    facts = {
        "Name": f"`{entry.name}`",
        "What it does": entry.summary,
        "Budget": f"`{entry.kind}`",
        "Trained policy": f"`{entry.name}:FOLDER`, where FOLDER is the folder of a run",
    }
    return f"{_facts(facts)}\n\n{_parameter_table(entry.params)}"


def describe_protocol(protocol: Protocol, beside: Mapping[str, Sequence[str]] | None = None) -> str:
    """Fact table of a protocol, and the table of its tasks.

    ``beside`` are further columns of the second, {head: a cell for each task}.
    """
    return f"{protocol_facts(protocol)}\n\n{_task_table(protocol, beside or {})}"


def protocol_facts(protocol: Protocol) -> str:
    """Fact table of a protocol, without its tasks."""
    head, seeds, report = protocol.protocol, protocol.seeds, protocol.report
    paired = report.comparison == "paired"
    facts = {
        "Name": f"`{protocol.name}`",
        "What it is": head.description,
        "Citation": head.citation,
        "Differs from the publication": "; ".join(head.differs or ()),
        "Digest": f"`{protocol.digest}`",
        "Training seeds": ", ".join(map(str, seeds.training)) or "none",
        "Evaluation seeds": _seeds(seeds.evaluation),
        "Score": f"`{report.score}`",
        "Required baselines": _quoted(report.baselines),
        "Comparisons": "paired by seed: episodes, or training runs" if paired else "",
        **_further(protocol),
        "Training": training_text(protocol) if protocol.training else "",
        **tuning_fact(protocol),
        "Time limits": str(protocol.limits or ""),
        "Maps": maps_text(protocol),
        "Required learned policies": _quoted(report.learned, ""),
    }
    return _facts(facts)


def _seeds(seeds: Evaluation) -> str:
    return f"{seeds.first} to {seeds.first + seeds.count - 1}"


def _further(protocol: Protocol) -> dict[str, str]:
    """Facts that only some protocols have: how checkpoints are chosen, what is shown of them."""
    selection, report = protocol.seeds.selection, protocol.report
    facts: dict[str, str] = {}
    if selection is not None:
        training, seeds = protocol.training, _seeds(selection)
        facts["Checkpoints"] = (
            f"the one with the highest mean `{report.score}` on the seeds {seeds} is "
            "evaluated; ties go to the earliest"
        )
        if training is not None and training.evaluates == "last":
            facts["Checkpoints"] = f"all play the seeds {seeds}; the last one is evaluated"
    if report.normalisation == "minmax":
        facts["Normalized scores"] = (
            "0 and 1 are the lowest and the highest score of all episodes of a report on the task, "
            "so scores of two reports cannot be compared"
        )
    for group, domain in (report.domain or {}).items():
        facts[f"Additional metrics of {group}"] = _quoted(domain.metrics)
        facts[f"Required baselines of {group}"] = _quoted(domain.baselines or (), "")
    if report.margin is not None:
        facts["Equivalence"] = f"within {report.margin:g} of normalized score"
    if report.effect:
        facts["Effect sizes"] = "Cohen's d, in addition to Hedges' g"
    return facts | asked(protocol)


def _task_table(protocol: Protocol, beside: Mapping[str, Sequence[str]]) -> str:
    """Table of the tasks; groups, partners and tasks trained on only where there are any."""
    columns = {
        "Task": [f"`{task.id}`" for task in protocol.task],
        "Group": [task.group for task in protocol.task],
        "Environment": [f"`{task.env}`" for task in protocol.task],
        "Parameters": [
            ", ".join(f"{k}={v}" for k, v in task.parameters.items()) for task in protocol.task
        ],
        "Partners": [_partners(task) for task in protocol.task],
        "Trained on": [f"`{task.origin}`" for task in protocol.task],
        "Episodes": [str(protocol.episodes(task)) for task in protocol.task],
        "Bounds (score 0 to 1)": [
            f"{task.bounds.low:.10g} to {task.bounds.high:.10g}" for task in protocol.task
        ],
    }
    if protocol.report.normalisation == "minmax":  # whose bounds scale nothing
        del columns["Bounds (score 0 to 1)"]
    if any(task.metrics for task in protocol.task):
        columns["Also measured"] = [_quoted(task.metrics or (), "") for task in protocol.task]
    if not any(task.partners for task in protocol.task):
        del columns["Partners"]
    if len(protocol.trained_tasks) == len(protocol.task):  # each on itself, or as Training says
        del columns["Trained on"]
    if not any(columns["Group"]):
        del columns["Group"]
    columns |= {head: list(cells) for head, cells in beside.items()}
    return rows_table(list(columns), zip(*columns.values(), strict=True))


def _partners(task: Task) -> str:
    """Return the partners of a task, with the role that they play if there are several."""
    pools = [(f"{role}: " if role else "") + _quoted(names) for role, names in task.pools.items()]
    return "; ".join(pools) or "self-play"


def _quoted(names: Iterable[str], nothing: str = "none") -> str:
    return ", ".join(f"`{name}`" for name in names) or nothing


def _values(kind: str, allowed: Allowed) -> str:
    """Say which values a parameter may take, where its type does not say it."""
    words = ("str", "tuple[str")  # no numbers, which have a range
    plain = kind in ("dict", "bool") or (kind.startswith(words) and not allowed.choices)
    return "" if plain else str(allowed)


def _parameter_table(params: type) -> str:
    rows = [
        (f"`{name}`", kind, f"`{default!r}`", _values(kind, allowed), allowed.text)
        for name, (kind, default, allowed) in describe_parameters(params).items()
    ]
    return rows_table(["Parameter", "Type", "Default", "Allowed", "Meaning"], rows)


def _part_table(head: str, layout: Mapping[str, Part]) -> str:
    """Table of the parts of a vector that are not empty, with meanings if there are any."""
    parts = {name: part for name, part in layout.items() if part.size}
    rows = [(f"`{name}`", _place(part), part.meaning) for name, part in parts.items()]
    said = any(part.meaning for part in parts.values())
    columns = 3 if said else 2
    return rows_table([head, "Index", "Meaning"][:columns], (row[:columns] for row in rows))


def _place(part: Part) -> str:
    """First and last entry of a part, and its shape if it has several axes."""
    if part.size == 1:
        return str(part.start)
    place = f"{part.start} to {part.stop - 1}"
    return f"{place}, shape {part.shape}" if len(part.shape) > 1 else place


def _agents(names: tuple[str, ...]) -> str:
    """List names; of many, the first two and the last of each role."""
    shown = [f"`{name}`" for name in names]
    if len(shown) <= 6:
        return ", ".join(shown)
    roles = [[shown[seat] for seat in members] for members in members_of_roles(names).values()]
    short = [role if len(role) <= 3 else [*role[:2], "...", role[-1]] for role in roles]
    return ", ".join(name for role in short for name in role)


def _spaces(spaces: list[Any], agents: tuple[str, ...]) -> str:
    texts = [_space(space) for space in spaces]
    if len(set(texts)) == 1:
        return f"`{texts[0]}`"
    groups = grouped(zip(texts, agents, strict=True))
    return "; ".join(f"`{text}` for {_agents(tuple(names))}" for text, names in groups.items())


def _space(space: Any) -> str:
    if not hasattr(space, "low"):
        return str(space)
    low, high = float(space.low.min()), float(space.high.max())
    return f"Box({low:g}, {high:g}, {space.shape}, {space.dtype})"


@cache
def _players() -> dict[str, frozenset[str]]:
    """Environments of every protocol of this package."""
    return {n: frozenset(task.env for task in load_protocol(n).task) for n in protocol_files()}


def _protocols_with(env_id: str) -> list[str]:
    return [name for name, played in _players().items() if env_id in played]

"""Searches the rules of a certificate, plays them, and judges the figures by the criteria."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from coopbench.protocol.loading import load_protocol
from coopbench.protocol.task import Task
from coopbench_envs.parameters import named
from coopbench_envs.registration import spec
from coopbench_envs.roles import members_of_roles
from studies.certificates.arena import self_play_table
from studies.certificates.criteria import criteria
from studies.certificates.games import REPEATED, Certificate, Criterion, Figure
from studies.certificates.replay import Sizes
from studies.certificates.sections import Effort, Focal, RepeatedGame, SelfPlay

PROTOCOL = "coopetition-standard"
_USUAL = "reciprocator"
# Reference policies of the games, by role where roles differ; the others have the usual one.
_REFERENCES: dict[str, str | dict[str, str]] = {
    "DynamicPartnerSelection-v1": "reciprocator:0.4,1",
    "PartnerHoldUp-v1": "reciprocator:0.4,1",
    "PlatformEcosystem-v1": "reciprocator:bar=0.8,ignore=0.16,follow=0.96",
}


def certify(
    env_id: str,
    *,
    protocol: str = PROTOCOL,
    tasks: Sequence[str] | None = None,
    stored: Certificate | None = None,
    effort: int = 1,
    sizes: Sizes | None = None,
    tell: Callable[[str], None] | None = None,
) -> Certificate:
    """Measure the ``tasks`` of a game in a protocol (default: all), and the repeated game.

    Tasks are searched and measured each by itself, the repeated game with those of self-play.
    With a ``stored`` certificate its rules are played again, by default those of all its tasks, and
    nothing is searched; without, the best rules are searched first, with budgets that grow with
    ``effort``. ``sizes`` are the numbers of episodes of the figures. ``tell`` is called with the
    name of each part before it begins. Raises ``ValueError`` for a game or a task that the protocol
    does not have.
    """
    say = tell or (lambda text: None)
    if stored is None:
        return _searched(_Work(env_id, protocol, tasks), effort, sizes, say, {})
    if tasks is None:
        tasks = [name for name in stored.rules if name != REPEATED]
    work = _Work(env_id, protocol, tasks)
    figures = work.measure(stored.rules, stored.best_script, sizes or Sizes(), say, {})
    return work.certificate(stored, figures)


def renewed(
    stored: Certificate,
    again: Sequence[str],
    *,
    effort: int = 1,
    sizes: Sizes | None = None,
    tell: Callable[[str], None] | None = None,
) -> Certificate:
    """Search the tasks ``again`` whose partners have changed, and the scripts of all tasks.

    All other tasks keep the rules and figures of the ``stored`` certificate; see ``certify``.
    Raises ``ValueError`` for a task that the certificate's protocol does not have.
    """
    work = _Work(stored.env_id, stored.protocol, None)
    for task in again:
        named("task", task, work.groups)
    kept = {
        name: _Kept(rules, stored.figures[name])
        for name, rules in stored.rules.items()
        if name not in again
    }
    return _searched(work, effort, sizes, tell or (lambda text: None), kept)


def _searched(
    work: "_Work",
    effort: int,
    sizes: Sizes | None,
    say: Callable[[str], None],
    kept: Mapping[str, "_Kept"],
) -> Certificate:
    """Search what is not kept, and measure it."""
    budgets = Effort.of(effort, len(work.game.agents))
    rules = work.search(budgets, say, kept)
    script = work.script(budgets, say)
    constant, loop = work.actions(rules)
    figures = work.measure(rules, script, sizes or Sizes(), say, kept)
    return Certificate(
        env_id=work.env_id,
        protocol=work.protocol,
        effort=effort,
        references=work.references,
        best_script=script,
        best_constant=constant,
        open_loop=loop,
        rules=rules,
        figures=figures,
        criteria=work.criteria(figures),
    )


class _Kept(NamedTuple):
    """What a stored certificate has of a section."""

    rules: Mapping[str, Any]
    figures: Mapping[str, Figure]


class _Work:
    """The sections of a certificate."""

    def __init__(self, env_id: str, protocol: str, tasks: Sequence[str] | None) -> None:
        self.env_id, self.protocol = spec(env_id).id, protocol
        chosen = _tasks(self.env_id, protocol, tasks)
        self.groups = {task.id: task.group for task in chosen}
        self.game = self_play_table(self.env_id, {}).game
        self.hidden = not bool(getattr(self.game.constants, "public", True))
        self.references = _references(self.env_id, list(members_of_roles(self.game.agents)))
        self._alone = [task for task in chosen if not task.pools]
        self._sections: dict[str, Any] = {t.id: SelfPlay(t, self.references) for t in self._alone}
        if self._alone:
            self._sections[REPEATED] = RepeatedGame(self.env_id, {}, self.references)
        rest = [task for task in chosen if task.pools]
        self._sections |= {task.id: Focal(task, self.references) for task in rest}
        self._met = _met_task(self.env_id, protocol)

    def search(
        self, effort: Effort, say: Callable[[str], None], kept: Mapping[str, _Kept]
    ) -> dict[str, Any]:
        """Search the rules of all sections, each by itself; only scripts in those that are kept."""
        rules: dict[str, Any] = {}
        for name, section in self._sections.items():
            say(f"{name}: searching")
            if name not in kept:
                rules[name] = section.search(effort)
            elif name == REPEATED:
                rules[name] = kept[name].rules
            else:
                rules[name] = {**kept[name].rules, "script": section.script(effort)}
        return rules

    def script(self, effort: Effort, say: Callable[[str], None]) -> dict[str, str]:
        """Return the best script of each role with partners that training may meet."""
        if self._met is None:
            return {}
        say(f"{self._met.id}: searching scripts")
        return Focal(self._met, self.references).script(effort, elsewhere=True)

    def measure(
        self,
        rules: Mapping[str, Any],
        script: Mapping[str, str],
        sizes: Sizes,
        say: Callable[[str], None],
        kept: Mapping[str, _Kept],
    ) -> dict[str, dict[str, Figure]]:
        """Play the rules of all sections; compare the fixed policies in shifted ranges, too."""
        figures: dict[str, dict[str, Figure]] = {}
        for name, section in self._sections.items():
            say(f"{name}: measuring")
            if name not in kept:
                figures[name] = section.measure(rules[name], sizes, script)
            elif name == REPEATED:
                figures[name] = dict(kept[name].figures)
            else:
                scripts = section.scripts(rules[name], sizes, script)
                figures[name] = {**kept[name].figures, **scripts}
        return figures

    def criteria(self, figures: Mapping[str, Mapping[str, Figure]]) -> tuple[Criterion, ...]:
        """Compare figures with what is required."""
        return criteria(figures, self.groups, self.hidden, len(self.game.agents))

    def certificate(
        self, stored: Certificate, figures: dict[str, dict[str, Figure]]
    ) -> Certificate:
        """Return a certificate with other figures of the same rules."""
        judged = self.criteria(figures)
        return replace(stored, references=self.references, figures=figures, criteria=judged)

    def actions(
        self, rules: Mapping[str, Any]
    ) -> tuple[dict[str, list[float]], dict[str, list[float]]]:
        """Return the best constant and the best sequence of self-play, by role."""
        if not self._alone:
            return {}, {}
        table = self_play_table(self.env_id, {})
        best, game = rules[self._alone[0].id], table.game
        constant, loop = {}, {}
        for role, form in table.forms.items():
            seat = form.inputs.seat
            low, width = game.low[seat], game.high[seat] - game.low[seat]
            played = form.over_time(form.weights(best["constant"][role]))
            constant[role] = ((played[0] - low) / width).round(6).tolist()
            sequence = form.over_time(form.weights(best["sequence"][role]))
            loop[role] = ((sequence[:, 0] - low[0]) / width[0]).round(6).tolist()
        return constant, loop


def _tasks(env_id: str, protocol: str, tasks: Sequence[str] | None) -> list[Task]:
    """Return the tasks of a game in a protocol; all, or those with these ids."""
    loaded = load_protocol(protocol)
    if tasks is not None:
        chosen = [loaded.task_of(task) for task in tasks]
        other = [task for task in chosen if spec(task.env).id != env_id]
        if other:
            raise ValueError(f"Task {other[0].id!r} is one of {other[0].env}, not of {env_id}.")
        return chosen
    chosen = [task for task in loaded.task if spec(task.env).id == env_id]
    if not chosen:
        games = dict.fromkeys(task.env for task in loaded.task)
        raise ValueError(
            f"{protocol} has no task of {env_id} to certify; allowed: {', '.join(games)}."
        )
    return chosen


def _met_task(env_id: str, protocol: str) -> Task | None:
    """Return the task of a game whose partners training may meet, if the protocol has one."""
    trained = load_protocol(protocol).trained_tasks
    met = [task for task in trained if spec(task.env).id == env_id and task.partners]
    return met[0] if met else None


def _references(env_id: str, roles: list[str]) -> dict[str, str]:
    """Return the reference policy of each role of a game."""
    policy = _REFERENCES.get(env_id.rpartition("/")[2], _USUAL)
    return dict.fromkeys(roles, policy) if isinstance(policy, str) else dict(policy)

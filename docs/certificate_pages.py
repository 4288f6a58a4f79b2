"""Pages of certificates, made at every build from the stored figures: one for each environment."""

from collections.abc import Iterable
from functools import partial

import checkout  # noqa: F401
import gallery

import coopbench_envs
from coopbench.analysis.battles import load_battles
from coopbench.analysis.certificates import BLIND, OBSERVING, SCRIPT
from studies.battles.pages import battles_page
from studies.certificates.games import Certificate, load_certificate
from studies.certificates.pages import certificate_page

_GAMES = "How they are made: [Game theory](../games.md#certificates)."
_STATISTICS = (
    "[Statistics](../statistics.md) decides whether a difference in a report is more than chance. "
    "This page says what a difference that is decided can mean."
)
_BATTLES = f"""
- {_STATISTICS}
- Where a battle **needs reactions**, a share of victories above that of the best plan with the mask
  shows that a team reacts to what it observes.
- Elsewhere it does not show that: a plan that is fixed in advance, and at most avoids illegal
  choices, can win as often. The text above each table says which battles need reactions.
- Intervals below are for other battles of the same players, not for other training runs.
- "Best" is the best that a search found. A better plan may exist.
"""


def page(env_id: str) -> str:
    """Return the page of an environment's certificate, or of those of its battles.

    Raises:
        FileNotFoundError: the environment has none.
    """
    name, stem = coopbench_envs.spec(env_id).name, gallery.stem(env_id)
    battles = load_battles(env_id)
    if battles:
        lead, figures = _BATTLES, battles_page(battles)
    else:
        certificate = load_certificate(env_id)
        lead, figures = _lead(certificate), certificate_page(certificate)
    return (
        f"# Certificate of {name}\n\n## Can I trust this difference?\n\n{lead.strip()}\n\n"
        f"## Figures\n\nFigures of [{name}](../environments/{stem}.md). `python -m "
        f"studies.certificates.check {name}` plays them again. "
        f"{'' if battles else _GAMES}\n\n{figures}\n"
    )


def _lead(certificate: Certificate) -> str:
    """Say what a score of each kind of task of a game shows, and what it does not."""
    lines = [_STATISTICS]
    alone = [name for name, figures in certificate.figures.items() if "blind" in figures]
    for task in alone:
        fixed = max(certificate.score(task, kind) for kind in BLIND)
        lines.append(
            f"**Copies of one policy** (`{task}`): play that observes only the time scores at most "
            f"{fixed:z.2f}, and rules that do not look at the others "
            f"{certificate.score(task, 'blind'):z.2f}. A score between the two shows that a policy "
            "uses what it observes, not that it reacts to others."
        )
    partnered = [name for name, figures in certificate.figures.items() if "bayesian" in figures]
    if partnered:
        known = [max(_scores(certificate, task, [*OBSERVING, *SCRIPT])) for task in partnered]
        pool = [certificate.score(task, "bayesian") for task in partnered]
        lines.append(
            "**One seat with partners**: 0 is the best play that ignores its partners, so a policy "
            "whose whole interval is above 0 reacts to them. The best rule or script found "
            f"scores {_range(known)}, depending on the task. A player that knows the pool of "
            f"partners scores {_range(pool)}; a higher score is not to be expected."
        )
        widths = [_width(certificate, task) for task in partnered]
        lines.append(
            f"There the scale from 0 to 1 is {_range(widths, '.0f')} % of the return: a small "
            "difference in return is a large one in score."
        )
    failed = [row.name for row in certificate.criteria if not row.met]
    lines += [
        f"All {len(certificate.criteria)} criteria of the game's design hold."
        if not failed
        else f"These criteria of the game's design do not hold: {'; '.join(failed)}.",
        '"Best" is the best that a search found. A better rule may exist.',
    ]
    return "\n".join(f"- {line}" for line in lines)


def _scores(certificate: Certificate, task: str, kinds: Iterable[str]) -> list[float]:
    return [certificate.score(task, kind) for kind in kinds if kind in certificate.figures[task]]


def _width(certificate: Certificate, task: str) -> float:
    """Return the upper less the lower bound of a task, in percent of the lower one."""
    figures = certificate.figures[task]
    return 100.0 * (figures["high"].value / figures["low"].value - 1.0)


def _range(values: list[float], form: str = ".2f") -> str:
    low, high = (f"{value:z{form}}" for value in (min(values), max(values)))
    return low if low == high else f"{low} to {high}"


def certified() -> list[str]:
    """Return the environments that have a certificate."""
    found = []
    for env_id in gallery.environments():
        try:
            load_certificate(env_id)
        except FileNotFoundError:
            if not load_battles(env_id):
                continue
        found.append(env_id)
    return found


MADE = {f"certificates/{gallery.stem(env_id)}.md": partial(page, env_id) for env_id in certified()}

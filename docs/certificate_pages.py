"""Pages of certificates, made at every build from the stored figures: one for each environment."""

from functools import partial

import checkout  # noqa: F401
import gallery

import coopbench_envs
from coopbench.certificates import load_certificate
from coopbench.certificates.battles import load_battles
from studies.battles.pages import battles_page
from studies.certificates.pages import certificate_page

_GAMES = "How they are made: [Game theory](../games.md#certificates)."


def page(env_id: str) -> str:
    """Return the page of an environment's certificate, or of those of its battles.

    Raises:
        FileNotFoundError: the environment has none.
    """
    name, stem = coopbench_envs.spec(env_id).name, gallery.stem(env_id)
    battles = load_battles(env_id)
    figures = battles_page(battles) if battles else certificate_page(load_certificate(env_id))
    return (
        f"# Certificate of {name}\n\nFigures of [{name}](../environments/{stem}.md). `python -m "
        f"studies.certificates.check {name}` plays them again. "
        f"{'' if battles else _GAMES}\n\n{figures}\n"
    )


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

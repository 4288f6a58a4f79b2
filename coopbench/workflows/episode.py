"""Episodes to watch: recordings that can be written as a page or as an animation."""

from pathlib import Path
from typing import Any

from coopbench.baselines.game import Game
from coopbench.baselines.match import seating
from coopbench.baselines.registry import from_code, make_policy
from coopbench.files import write_bytes
from coopbench.playing.contestants import PolicyLike, name_of
from coopbench.playing.recording import Recording, check_place, play
from coopbench.report.gif import as_gif
from coopbench.report.player import as_html
from coopbench_envs.engine import Engine
from coopbench_envs.shells.common import seed_of


class Episode(Recording):
    """A recording that draws itself.

    ``play`` goes through it, ``save`` writes it as data, ``to_html`` and ``to_gif`` show it.
    """

    @classmethod
    def of(cls, recorded: Recording) -> "Episode":
        """Return the same episode, so that it can be shown."""
        return cls(**vars(recorded))

    def to_html(self, path: str | Path, *, sight: bool = False) -> Path:
        """Write the player of the episode, one HTML file that needs nothing else.

        With ``sight`` it begins by showing what agents see; ``ValueError`` for a game whose
        pictures do not show that.
        """
        write_bytes(Path(path), as_html(self, sight=sight).encode())
        return Path(path)

    def to_gif(self, path: str | Path, **options: Any) -> Path:
        """Write the episode as an animated GIF; ``options`` are those of ``as_gif``."""
        write_bytes(Path(path), as_gif(self, **options).content)
        return Path(path)


def record(
    env_id: str,
    policy: PolicyLike,
    seed: int = 0,
    path: str | Path | None = None,
    **parameters: Any,
) -> Episode:
    """Play one episode with ``policy`` in every seat and return it; with ``path``, write it too.

    ``policy`` is a name, a callable on batches or an object with ``act``, as in ``evaluate``; the
    episode is the first one of the environment seeded ``seed``.
    """
    number = int(seed_of(seed)[0])
    if path is not None:
        check_place(Path(path))
    policy = from_code(policy)
    if isinstance(policy, str):  # errors are raised before the environment is compiled
        make_policy(policy, Game.at(env_id, **parameters))
    engine = Engine(env_id, **parameters)
    seats = seating(1, len(engine.agents), 0)
    title = f"{engine.spec.name}, {name_of(policy)}, seed {seed}"
    episode = Episode.of(play(engine, [policy], seats, number, {}, title, {}))
    if path is not None:
        episode.save(path)
    return episode

"""The player of an episode: one HTML file that needs nothing else, for screen and phone.

A game whose ``EnvSpec`` has a ``scene`` is drawn from data, smoothly and at any size; any other
game is shown by its pictures.
"""

from itertools import pairwise
from typing import Any

from markupsafe import Markup

from coopbench.episodes.grouping import grouped
from coopbench.playing.recording import Recording
from coopbench.report.page import embedded, filled, render
from coopbench.report.scenes.arrays import GridCourse, ScriptedCourse
from coopbench.report.scenes.panels import PanelsCourse
from coopbench.report.scenes.pictures import PicturesCourse
from coopbench_envs import spec as spec_of
from coopbench_envs.engine import Engine
from coopbench_envs.pictures import check_picture_options
from coopbench_envs.scenes import Course, Grid, Panels, Scripted

_SECONDS = 30  # that an episode takes at speed 1, unless steps would pass too fast or slowly
_SLOWEST, _FASTEST = 4, 30  # steps per second
# What notes the kinds of scenes that are common to several games.
_COURSES: dict[type, type[Course]] = {
    Grid: GridCourse,
    Panels: PanelsCourse,
    Scripted: ScriptedCourse,
}


def as_html(recording: Recording, share: float = 1.0, sight: bool = False) -> str:
    """Return the page that plays ``recording``; inside another page it leaves out its heading.

    It loads nothing from anywhere. Where all steps would make it too large, every k-th is kept and
    the page says so; what happened in between, such as contacts, is kept. ``share`` is the part of
    that size that it may have. With ``sight`` it begins by showing what agents see, which
    can be switched on and off on the page; ``ValueError`` for a game that cannot show it.
    """
    chosen_options(recording, sight)
    steps, course = _played(recording, share)
    return render(
        "player.html",
        title=recording.title,
        facts=_facts(recording, steps),
        script=Markup(course.script()),
        beside=filled(course.beside(), sight=sight, legend=course.legend()),
        below=Markup(course.below),
        followed=course.followed,
        data=embedded(
            {
                "steps": steps,
                "rate": min(_FASTEST, max(_SLOWEST, len(recording) / _SECONDS)),
                "agents": recording.agents,
                "players": recording.players,
                "stage": course.stage(),
                **course.courses(),
            }
        ),
    )


def chosen_options(recording: Recording, sight: bool) -> dict[str, bool]:
    """Return the options of the game's pictures; raise ``ValueError`` if it cannot show sight."""
    options = {"sight": True} if sight else {}
    check_picture_options(spec_of(recording.env), options)
    return options


def kept_steps(total: int, stride: int) -> list[int]:
    """Return the steps 0, stride, 2 stride, ... and the last one."""
    return [*range(0, total, stride), total]


def _played(recording: Recording, share: float) -> tuple[list[int], Course]:
    """Play the episode; return the steps that the page shows, and what it shows of them."""
    engines = recording.play()
    course = _course(next(engines))
    steps = kept_steps(len(recording), course.stride(len(recording), share))
    shown = set(steps)
    course.note(True)
    for step, _ in enumerate(engines, 1):
        course.note(step in shown)
    return course.fitting(steps, share), course


def _course(engine: Engine) -> Course:
    """Return what notes an episode for the kind of scene that its game has."""
    draw = engine.spec.scene
    if draw is None:
        return PicturesCourse(engine)
    scene: Any = draw(engine.constants, engine.state, 0)
    common = _COURSES.get(type(scene))
    course: Course = scene.course(engine) if common is None else common(engine)
    return course


def _facts(recording: Recording, steps: list[int]) -> dict[str, str]:
    """What is played, in words; parameters that are empty stay out."""
    parameters = [f"{n} = {v}" for n, v in recording.parameters.items() if v not in ({}, (), None)]
    largest = max(b - a for a, b in pairwise(steps))
    returns, common = recording.rewards.sum(axis=0), spec_of(recording.env).common_reward
    ends = f"mean {returns.mean():.4g}, {returns.min():.4g} to {returns.max():.4g}"
    earned = {"Return": f"{returns[0]:.4g}"} if common else {"Return by agent": ends}
    return {
        "Environment": recording.env,
        **{name.capitalize(): text for name, text in recording.about.items()},
        "Policies": _policies(recording),
        "Seed": str(recording.seed),
        "Steps": f"{len(recording)}"
        + (f", of which one in {largest} is shown" if largest > 1 else ""),
        **earned,
        "Parameters": ", ".join(parameters),
        "Versions": ", ".join(f"{name} {number}" for name, number in recording.versions.items()),
    }


def _policies(recording: Recording) -> str:
    """Name the policies, with their seats if there are several."""
    seats = grouped(zip(recording.players, recording.agents, strict=True))
    if len(seats) == 1:
        return f"{recording.players[0]} in all seats"
    return ", ".join(f"{player} ({' '.join(agents)})" for player, agents in seats.items())

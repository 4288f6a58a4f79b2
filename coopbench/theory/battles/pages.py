"""Certificates of battles as Markdown: victories, returns, budgets, and what follows from them."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence

from coopbench.analysis.battles import PLAYERS, BattleCertificate, BattleFigure
from coopbench.report.markdown import rows_table

__all__ = ["PUBLISHED", "battles_page", "conclusion"]

# The maps of the paper on SMAC.
PUBLISHED = (
    *("2s_vs_1sc", "2s3z", "3s5z", "1c3s5z", "10m_vs_11m", "2c_vs_64zg", "bane_vs_bane"),
    *("5m_vs_6m", "3s_vs_5z", "3s5z_vs_3s6z", "6h_vs_8z", "27m_vs_30m", "MMM2", "corridor"),
)
_REQUIRED = 12
_KINDS = {"with": "masked", "without": "unmasked"}
_WHAT = ("episodes", "steps")
_KEYS = ("teams", "start")  # parameters by which certificates are grouped
_TRAINED = (
    "The trained policies, each the checkpoint of one or more trainings with the best score in the "
    "selection episodes:"
)
_TRAININGS = ("Battle", "Policy", "Trainings", "Steps before the checkpoint", "Command of the best")


def battles_page(certificates: Mapping[str, BattleCertificate]) -> str:
    """Write the conclusion and the tables, for maps and drawn teams and for each kind of start."""
    sections: dict[tuple[str, ...], list[BattleCertificate]] = {}
    for one in certificates.values():
        kinds = tuple(f'{key}="{one.parameters[key]}"' for key in _KEYS if key in one.parameters)
        sections.setdefault(kinds, []).append(one)
    return "\n\n".join(_section(kinds, ones) for kinds, ones in sorted(sections.items()))


def _section(settings: Sequence[str], certificates: list[BattleCertificate]) -> str:
    title = f"**`{', '.join(settings)}`.** " if settings else ""
    heads = ["Battle", "Episodes", *(PLAYERS[name][0] for name in _players(certificates))]
    trained = [one for one in certificates if one.training]
    tables = [] if not trained else [_TRAINED, rows_table(_TRAININGS, _trainings(trained))]
    kinds = [f"{kind} the mask, {what}" for kind in _KINDS for what in _WHAT]
    return "\n\n".join(
        [
            f"{title}{conclusion(certificates)}",
            "Share of episodes won, with Wilson's 95 % interval:",
            rows_table(heads, _rows(certificates, _won)),
            "Mean return, 1 for a victory without regeneration, with the 95 % interval of the t "
            "distribution:",
            rows_table(heads, _rows(certificates, _scored)),
            "What each search played before it chose its plan:",
            rows_table(["Battle", *kinds], _budgets(certificates)),
            *tables,
        ]
    )


def conclusion(certificates: Iterable[BattleCertificate]) -> str:
    """Say on how many published maps blind play wins at most half as often as reactive play."""
    by_name = {one.battle: one for one in certificates}
    if not by_name.keys() & set(PUBLISHED):
        return _of_others(by_name)
    published = {name: by_name[name] for name in PUBLISHED if name in by_name}
    below = [name for name, one in published.items() if one.needs_sight]
    lost = [name for name, one in published.items() if one.is_never_won]
    above = [name for name in published if name not in below and name not in lost]
    missing = [name for name in PUBLISHED if name not in by_name]
    sentences = [
        f"Of the {len(PUBLISHED)} maps of the paper, {len(published)} have a certificate. On "
        f"{len(below)} of them the best blind play wins at most half as often as the best play "
        f"that sees ({_REQUIRED} of {len(PUBLISHED)} are required of drawn starts). "
        f"{_shown(published.values())}"
    ]
    if above:
        sentences.append(f"It wins more often than that on {_named(above)}.")
    others = [
        name
        for name, one in by_name.items()
        if name not in PUBLISHED and not one.needs_sight and not one.is_never_won
    ]
    if others:
        sentences.append(f"Of other maps, it does on {_named(others)}.")
    if lost:
        sentences.append(
            f"Neither wins on {_named(lost)}, from which nothing follows"
            f"{_with_free_orders([by_name[name] for name in lost])}."
        )
    if missing:
        sentences.append(f"Not searched yet: {_named(missing)}.")
    return " ".join(sentences)


def _shown(certificates: Iterable[BattleCertificate]) -> str:
    """Say on how many battles the intervals agree with the estimates."""
    names = [one.battle for one in certificates if one.is_shown_to_need_sight]
    return (
        f"On {len(names)} the intervals agree: that of blind play ends below half of where that of "
        f"the best play begins{f' ({_named(names)})' if names else ''}."
    )


def _of_others(certificates: Mapping[str, BattleCertificate]) -> str:
    """Say in which other battles, as of drawn teams, blind play wins at most half as often."""
    below = [name for name, one in certificates.items() if one.needs_sight]
    above = [name for name, one in certificates.items() if not one.needs_sight]
    text = (
        f"In {len(below)} of {len(certificates)} battles the best blind play wins at most half as "
        f"often as the best play that sees. {_shown(certificates.values())}"
    )
    return text if not above else f"{text} It wins more often than that in {', '.join(above)}."


def _with_free_orders(certificates: list[BattleCertificate]) -> str:
    """Say where the heuristic wins that orders attacks from any distance."""
    names = [one.battle for one in certificates if one.figures["free"].wins]
    return f" (`smac_heuristic_free` does on {_named(names)})" if names else ""


def _named(names: list[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _players(certificates: Iterable[BattleCertificate]) -> list[str]:
    """Return the players of any of these battles."""
    present = {name for one in certificates for name in one.figures}
    return [name for name in PLAYERS if name in present]


def _rows(
    certificates: list[BattleCertificate], cell: Callable[[BattleFigure], str]
) -> Iterable[tuple[str, ...]]:
    players = _players(certificates)
    for one in certificates:
        figures = one.figures
        episodes = str(figures["random"].episodes)
        cells = (cell(figures[name]) if name in figures else "-" for name in players)
        yield (_label(one), episodes, *cells)


def _trainings(certificates: list[BattleCertificate]) -> Iterable[tuple[str, ...]]:
    for one in certificates:
        for player, what in one.training.items():
            command = f"coopbench train {what['protocol']} {what['learner']} --task {what['task']}"
            command += f" --seed {what['seed']} --steps {what['budget']}"
            for key, value in what["settings"].items():
                command += f" --set {key}={json.dumps(value)}"
            name, steps = PLAYERS[player][0], f"{what['steps']:,}"
            yield _label(one), name, str(what["runs"]), steps, f"`{command}`"


def _label(certificate: BattleCertificate) -> str:
    """Return a map as code, drawn teams as words."""
    return f"`{certificate.battle}`" if "map" in certificate.parameters else certificate.battle


def _won(figure: BattleFigure) -> str:
    return f"{figure.win:.3f} [{figure.win_low:.3f}, {figure.win_high:.3f}]"


def _scored(figure: BattleFigure) -> str:
    return f"{figure.score:.3f} [{figure.score_low:.3f}, {figure.score_high:.3f}]"


def _budgets(certificates: list[BattleCertificate]) -> Iterable[tuple[str, ...]]:
    for one in certificates:
        numbers = (one.search[kind][what] for kind in _KINDS.values() for what in _WHAT)
        yield (_label(one), *(f"{number:,}" for number in numbers))

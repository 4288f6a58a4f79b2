"""Certificates of battles as Markdown: victories, returns, budgets, and what follows from them."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence

from coopbench.analysis.battles import PLAYERS, BattleCertificate, BattleFigure
from coopbench.report.markdown import rows_table

# The maps of the paper on SMAC.
PUBLISHED = (
    *("2s_vs_1sc", "2s3z", "3s5z", "1c3s5z", "10m_vs_11m", "2c_vs_64zg", "bane_vs_bane"),
    *("5m_vs_6m", "3s_vs_5z", "3s5z_vs_3s6z", "6h_vs_8z", "27m_vs_30m", "MMM2", "corridor"),
)
_HARDLY = 0.1  # share of victories below which nothing follows from who has more of them
_REQUIRED = 12  # of the published maps from drawn starts
_WON = 0.1  # share of victories of the heuristic with free orders that is worth a mention
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
    """Say on how many battles victories show, by the intervals, that agents react."""
    by_name = {one.battle: one for one in certificates}
    published = {name: by_name[name] for name in PUBLISHED if name in by_name}
    others = {name: one for name, one in by_name.items() if name not in published}
    if not published:
        return f"{_verdicts(f'Of {len(others)} battles', others)} {_without_mask(by_name)}"
    sentences = [_verdicts(f"Of the {len(PUBLISHED)} maps of the paper", published)]
    if all(one.parameters.get("start") == "drawn" for one in published.values()):
        sentences.append(f"The design goal was {_REQUIRED} maps that need reactions.")
    if others:
        sentences.append(_verdicts(f"Of {len(others)} other maps", others))
    missing = [name for name in PUBLISHED if name not in by_name]
    if missing:
        sentences.append(f"Not searched yet: {_named(missing)}.")
    return " ".join([*sentences, _without_mask(by_name)])


def _verdicts(whole: str, certificates: Mapping[str, BattleCertificate]) -> str:
    """Count the battles that need reactions, that do not, that are open and that nobody wins."""
    verdicts: dict[str, list[str]] = {"need": [], "none": [], "open": [], "lost": []}
    for name, one in certificates.items():
        verdicts[verdict(one)].append(name)
    need, none, opened, lost = verdicts.values()
    text = (
        f"{whole}, {len(need)} need reactions: policies that see the battle win more than twice as "
        f"often as the best play found that sees at most the mask, by the 95 % intervals"
        f"{_in_brackets(need)}. {len(none)} do not need reactions{_in_brackets(none)}; for "
        f"{len(opened)} the intervals do not decide{_in_brackets(opened)}."
    )
    if lost:
        free = [name for name in lost if certificates[name].figures["free"].win >= _WON]
        exception = f"; `smac_heuristic_free` wins more on {_named(free)}" if free else ""
        text += (
            f" On {len(lost)} neither kind wins a tenth of the battles{_in_brackets(lost)}, so "
            f"they are not judged{exception}."
        )
    return text


def verdict(certificate: BattleCertificate) -> str:
    """Return "lost", "need", "none" or "open", by the intervals of a certificate."""
    blind, reactive = certificate.blind, certificate.figures[certificate.reactive]
    if max(reactive.win_high, blind.win_high) < _HARDLY:
        return "lost"
    if certificate.is_shown_to_need_sight:
        return "need"
    return "none" if blind.win_low > 0.5 * reactive.win_high else "open"


_MEANINGS = {
    "need": "needed",
    "none": "not needed: blind play wins more than half as often",
    "open": "open: the intervals do not decide",
    "lost": "not judged: no policy tried wins a tenth of the battles",
}


def verdicts_table(
    certificates: Iterable[BattleCertificate], tasks: Mapping[str, str], protocol: str
) -> str:
    """Tell of every battle what its intervals say of reacting, and which task plays it.

    ``tasks`` are those of the protocol by the name of their certificate.
    """
    rows = []
    for one in certificates:
        best = (f"{PLAYERS[n][0]} {_won(one.figures[n])}" for n in (one.best_blind, one.reactive))
        task = tasks.get(one.name)
        plays = f"`{task}`" if task else "none"
        unmasked = _won(one.figures["unmasked"])
        rows.append((_label(one), unmasked, *best, _MEANINGS[verdict(one)], plays))
    heads = [
        "Battle",
        "Plan that sees nothing",
        "Best play found that sees at most the mask",
        "Best play that sees the battle",
        "Reactions",
        f"Task of `{protocol}`",
    ]
    return rows_table(heads, rows)


def counted(certificates: Iterable[BattleCertificate]) -> str:
    """Say in one sentence how many of the maps of the paper need reactions."""
    by_name = {one.battle: one for one in certificates}
    names: dict[str, list[str]] = {key: [] for key in _MEANINGS}
    for name in PUBLISHED:
        names[verdict(by_name[name])].append(name)
    need, none, opened, lost = names.values()
    return (
        f"Of the {len(PUBLISHED)} maps of the SMAC paper {len(need)} need reactions"
        f"{_in_brackets(need)}, {len(none)} do not{_in_brackets(none)}, {len(opened)} "
        f"{'is' if len(opened) == 1 else 'are'} open{_in_brackets(opened)}, and no policy tried "
        f"wins a tenth of the battles on {len(lost)}{_in_brackets(lost)}."
    )


def _without_mask(certificates: Mapping[str, BattleCertificate]) -> str:
    """Say how often the best plans win that see nothing at all."""
    wins = {name: one.figures["unmasked"].win for name, one in certificates.items()}
    won = [f"{_named([name])} {win:.2f}" for name, win in wins.items() if win > 0.0]
    return (
        f"Plans that do not even see the mask never win on {len(wins) - len(won)} of {len(wins)}; "
        f"elsewhere they win these shares{_listed(won) or ': none'}."
    )


def _in_brackets(names: Sequence[str]) -> str:
    return _listed([_named([name]) for name in names])


def _listed(texts: Sequence[str]) -> str:
    return f" ({', '.join(texts)})" if texts else ""


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

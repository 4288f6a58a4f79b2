"""Commands of certificates: certify."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from coopbench.cli.console import console, say

Sections = Iterator[tuple[str, Mapping[str, Any], Mapping[str, Any]]]


def certify(
    env: Annotated[str, typer.Argument(help="A version 1 game, Skirmish-v0 or Skirmish-v1.")],
    task: Annotated[
        list[str] | None,
        typer.Option(metavar="ID", help="Only this task, or battle (3m-drawn); repeat for more."),
    ] = None,
    stored: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Certificate to play; default: that of the package."),
    ] = None,
) -> None:
    """Play the certificate of a game again: its rules and scripts, or the plans of its battles.

    Prints every figure, and the stored one where it differs. The exit status is 1 if a figure
    differs, or if a criterion of the certificate does not hold.
    """
    from coopbench.certificates.battles import load_battles

    errors = console(stderr=True)

    def tell(text: str) -> None:
        errors.print(f"{text} ...", style="dim")

    if load_battles(env):
        if stored is not None:
            raise typer.BadParameter("battles have no such file", param_hint="--stored")
        sections, good = _battles(env, task, tell), True
    else:
        certificate = _certificate(env, stored)
        prefixes = tuple(f"{name}: " for name in task or ())
        rows = [row for row in certificate.criteria if row.name.startswith(prefixes or "")]
        sections, good = _games(certificate, task, tell), all(row.met for row in rows)
        for row in rows:
            bound = f"{'>=' if row.above else '<='} {row.bound:g}"
            verdict = "holds" if row.met else "DOES NOT HOLD"
            say(f"{row.name}: {row.value:z.3f} ± {row.error:z.3f}, required {bound}: {verdict}")
    for section, before, again in sections:
        differing = 0
        for name, figure in again.items():
            differs = before[name] != figure
            note = f"; stored: {_text(before[name])}" if differs else ""
            say(f"{section:<28}{name:<32}{_text(figure)}{note}")
            differing += differs
        of_all = f"{differing} of {len(again)} figures differ from what is stored"
        say(f"{section}: {of_all if differing else 'as stored'}")
        good &= not differing
    if not good:
        raise typer.Exit(1)


def _certificate(env: str, stored: Path | None) -> Any:
    """Return the certificate of the package, or that of a file."""
    from coopbench.certificates import load_certificate, read_certificate
    from coopbench_envs.registration import spec

    return load_certificate(spec(env).id) if stored is None else read_certificate(stored)


def _games(certificate: Any, tasks: Sequence[str] | None, tell: Callable[[str], None]) -> Sections:
    """Yield every section of a game, its figures as they are stored and as they are played."""
    from coopbench.certificates import replayed

    for section in tasks or certificate.rules:
        again = replayed(certificate, [section], tell=tell)[section]
        yield section, certificate.figures[section], again


def _battles(env: str, names: Sequence[str] | None, tell: Callable[[str], None]) -> Sections:
    """Yield every battle, its figures as they are stored and as they are played."""
    from coopbench.certificates.battles import load_battles, measured
    from coopbench_envs.parameters import named

    battles = load_battles(env)
    for name in names or battles:
        old = named("battle", name, battles)
        yield name, old.figures, measured(old, old.figures["random"].episodes, tell).figures


def _text(figure: Any) -> str:
    """Write a figure: a mean with its standard error, or victories with their interval."""
    if hasattr(figure, "error"):
        return f"{figure.value:z.4f} ± {figure.error:.4f}"
    ends = f"[{figure.win_low:.3f}, {figure.win_high:.3f}]"
    return f"{figure.win:.3f} won {ends}, score {figure.score:.3f}"

"""Play the certificate of a game again: its rules and scripts, or the plans of its battles.

    python -m studies.certificates.check TrustDilemma-v1
    python -m studies.certificates.check Skirmish-v1 --task 3m-drawn

Prints every figure, and the stored one where it differs. The exit status is 1 if a figure differs,
or if a criterion of the certificate does not hold.
"""

import argparse
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from coopbench.analysis.battles import load_battles
from coopbench_envs.parameters import named
from coopbench_envs.registration import spec
from studies.battles.play import measured
from studies.certificates.games import Certificate, load_certificate, read_certificate
from studies.certificates.replay import replayed

Sections = Iterator[tuple[str, Mapping[str, Any], Mapping[str, Any]]]


def main() -> None:
    """Print all figures, as they are stored and as they are played."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("env", metavar="GAME", help="of version 1, Skirmish-v0 or Skirmish-v1")
    parser.add_argument("--task", action="append", metavar="ID", help="or battle; repeat for more")
    parser.add_argument("--stored", type=Path, help="certificate; default: that of the package")
    options = parser.parse_args()

    def tell(text: str) -> None:
        print(f"{text} ...", file=sys.stderr)

    if load_battles(options.env):
        if options.stored is not None:
            parser.error("--stored names the certificate of a game; battles have no such file")
        sections, good = _battles(options.env, options.task, tell), True
    else:
        certificate = _certificate(options.env, options.stored)
        prefixes = tuple(f"{name}: " for name in options.task or ())
        rows = [row for row in certificate.criteria if row.name.startswith(prefixes or "")]
        sections, good = _games(certificate, options.task, tell), all(row.met for row in rows)
        for row in rows:
            bound = f"{'>=' if row.above else '<='} {row.bound:g}"
            verdict = "holds" if row.met else "DOES NOT HOLD"
            print(f"{row.name}: {row.value:z.3f} ± {row.error:z.3f}, required {bound}: {verdict}")
    for section, before, again in sections:
        differing = 0
        for name, figure in again.items():
            differs = before[name] != figure
            note = f"; stored: {_text(before[name])}" if differs else ""
            print(f"{section:<28}{name:<32}{_text(figure)}{note}")
            differing += differs
        of_all = f"{differing} of {len(again)} figures differ from what is stored"
        print(f"{section}: {of_all if differing else 'as stored'}")
        good &= not differing
    sys.exit(0 if good else 1)


def _certificate(env: str, stored: Path | None) -> Certificate:
    """Return the certificate of the package, or that of a file."""
    return load_certificate(spec(env).id) if stored is None else read_certificate(stored)


def _games(
    certificate: Certificate, tasks: Sequence[str] | None, tell: Callable[[str], None]
) -> Sections:
    """Yield every section of a game, its figures as they are stored and as they are played."""
    for section in tasks or certificate.rules:
        again = replayed(certificate, [section], tell=tell)[section]
        yield section, certificate.figures[section], again


def _battles(env: str, names: Sequence[str] | None, tell: Callable[[str], None]) -> Sections:
    """Yield every battle, its figures as they are stored and as they are played."""
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


if __name__ == "__main__":
    main()

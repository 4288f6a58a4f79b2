"""Make the certificate of a version 1 game: search the best rules and measure what they earn.

    python -m studies.certificates TrustDilemma-v1 --out TrustDilemma-v1.json
    python -m studies.certificates TrustDilemma-v1 --play   # measures the rules of the package
    python -m studies.certificates TrustDilemma-v1 --again trust-dilemma.unmet --out FILE

``--again`` searches these tasks and the scripts of all, and keeps the rest as the package has it;
``--scripts`` searches scripts alone, for instance after strategies have joined the grid.
Each prints the criteria, the scores of every task and their bounds, as a protocol's file holds
them. The exit status is 1 if a criterion does not hold.
"""

import argparse
import sys
from pathlib import Path

from coopbench.files import write_text
from studies.certificates import PROTOCOL, certify, renewed
from studies.certificates.games import load_certificate
from studies.certificates.pages import bounds_lines, certificate_page


def main() -> None:
    """Print the certificate and write it, if a file is named."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("env", metavar="GAME")
    parser.add_argument("--protocol", default=PROTOCOL, help="whose tasks of the game are measured")
    parser.add_argument("--task", action="append", metavar="ID", help="only this; repeat for more")
    parser.add_argument("--play", action="store_true", help="play stored rules, search nothing")
    parser.add_argument("--again", action="append", metavar="ID", default=[], help="search this")
    parser.add_argument("--scripts", action="store_true", help="search the scripts of all tasks")
    parser.add_argument("--effort", type=int, default=1, help="budget, times the usual")
    parser.add_argument("--out", type=Path, help="file for the certificate, as JSON")
    options = parser.parse_args()

    def tell(text: str) -> None:
        print(f"{text} ...", file=sys.stderr)

    if options.again or options.scripts:
        stored = load_certificate(options.env)
        certificate = renewed(stored, options.again, effort=options.effort, tell=tell)
    else:
        certificate = certify(
            options.env,
            protocol=options.protocol,
            tasks=options.task,
            stored=load_certificate(options.env) if options.play else None,
            effort=options.effort,
            tell=tell,
        )
    print(certificate_page(certificate))
    print("\n".join(bounds_lines(certificate)))
    if options.out is not None:
        write_text(options.out, certificate.to_json())
    sys.exit(0 if certificate.met else 1)


if __name__ == "__main__":
    main()

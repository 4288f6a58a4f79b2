"""``python -m coopbench``, and the entry point of the command ``coopbench``."""

import sys

__all__ = ["main"]


def main() -> None:
    """Run the command line; an interruption ends it with 130, also while it is being loaded."""
    try:
        from coopbench.cli.main import main as run

        run()
    except KeyboardInterrupt:
        sys.stderr.write("Interrupted.\n")
        sys.exit(130)


if __name__ == "__main__":
    main()

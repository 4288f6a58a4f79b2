"""Inputs: files to import, of limited size, and the names that marl-eval can keep apart."""

from pathlib import Path

from coopbench_envs.reading import read_regular

__all__ = ["Names", "read_import"]

_LIMIT = 1 << 29  # bytes; the largest published experiments have less


def read_import(path: Path) -> bytes:
    """Return the content of a file to import.

    Raises ``FileNotFoundError`` if there is none, and ``ValueError`` if it is too large or cannot
    be read.
    """
    try:
        return read_regular(path, _LIMIT)
    except FileNotFoundError:
        raise FileNotFoundError(f"There is no file {path} to import.") from None
    except OSError as error:
        raise ValueError(f"{path} cannot be read as a file: {error.strerror}.") from None


class Names:
    """Names of a file, each in one spelling: marl-eval reads all of them in lower case."""

    def __init__(self, advice: str) -> None:
        self._advice = advice
        self._spelled: dict[tuple[str, str], str] = {}

    def check(self, kind: str, name: str, where: str) -> None:
        """Raise ``ValueError`` for a name that marl-eval cannot keep apart from others."""
        if not name.strip() or "," in name:
            why = "a comma, with which marl-eval joins names" if name.strip() else "no letters"
            raise ValueError(f"{where}: the {kind} {name!r} has {why}; {self._advice}.")
        other = self._spelled.setdefault((kind, name.lower()), name)
        if other != name:
            raise ValueError(
                f"{where}: the {kind} {name!r} differs from {other!r} in upper and lower case "
                f"only, and marl-eval takes them for one; {self._advice}."
            )

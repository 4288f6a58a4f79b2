"""Errors: the base class of all exceptions of this project; see ``coopbench.errors``."""

import traceback
from pathlib import Path

__all__ = ["CoopbenchError", "KernelError", "broken_code"]


class CoopbenchError(Exception):
    """Base of all exceptions that this project defines."""


class KernelError(CoopbenchError, TypeError):
    """A kernel that cannot be compiled; the message names it, file and line, and the remedy."""


def broken_code(place: str, error: Exception) -> ValueError:
    """Return the error of a file of Python that fails while it is loaded.

    ``place`` is the file, or a module; of a file the innermost line that failed is named.
    """
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if Path(frame.filename).name == Path(place).name]
    where = f", line {lines[-1]}," if lines else ""
    return ValueError(f"{place}{where} cannot be executed: {type(error).__name__}: {error}")

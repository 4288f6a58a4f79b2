"""Errors: the base class of all exceptions of this project; see ``coopbench.errors``."""

__all__ = ["CoopbenchError"]


class CoopbenchError(Exception):
    """Base of all exceptions that this project defines."""

"""Errors: the base class of all exceptions of this project; see ``coopbench.errors``."""

__all__ = ["CoopbenchError", "KernelError"]


class CoopbenchError(Exception):
    """Base of all exceptions that this project defines."""


class KernelError(CoopbenchError, TypeError):
    """A kernel that cannot be compiled; the message names it, file and line, and the remedy."""

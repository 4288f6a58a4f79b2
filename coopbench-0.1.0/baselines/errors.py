"""Errors of training."""

from coopbench_envs.errors import CoopbenchError

__all__ = ["Diverged"]


class Diverged(CoopbenchError, RuntimeError):  # noqa: N818 - what happened to the training
    """Training produced numbers that are not finite; the message says which, and at which step."""

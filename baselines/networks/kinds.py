"""The kinds of networks, and how a trained policy of any kind is read from a file."""

import json
from collections.abc import Callable
from functools import cache

from coopbench.baselines.networks.network import NetworkPolicy
from coopbench.baselines.networks.policy import (
    FACTS,
    FORMATS,
    PERCEPTRON,
    RECURRENT,
    Content,
    TrainedPolicy,
)
from coopbench_envs.arrays import of_weights, unpack
from coopbench_envs.packages import installed
from coopbench_envs.parameters import unknown

__all__ = ["KINDS", "read_policy"]

Reader = Callable[[Content], TrainedPolicy]

# Other packages add theirs through the entry-point group ``coopbench.networks``: the name of the
# kind, and a function like these. It raises ``ValueError``, ``LookupError`` or ``TypeError`` for
# what its own ``pack`` does not write.
KINDS: dict[str, Reader] = {PERCEPTRON: NetworkPolicy.read, RECURRENT: NetworkPolicy.read}

_HEADER = 1 << 20  # bytes; hyperparameters have up to 65,536
_BROKEN = (LookupError, TypeError, AttributeError, ArithmeticError, RecursionError)


@cache
def _installed() -> dict[str, Reader]:
    """Return the kinds of other packages."""
    return installed("coopbench.networks", Callable, KINDS)


def read_policy(content: bytes) -> TrainedPolicy:
    """Return the policy of a file; ``ValueError`` for anything that ``pack`` does not write."""
    arrays = unpack(content, of_weights(content))
    try:
        text = arrays.pop("header").tobytes()
        if len(text) > _HEADER:
            raise ValueError(f"its header has {len(text):,} bytes; allowed: up to {_HEADER:,}")
        header = json.loads(text)
        written = header.pop("format")
        kind, kinds = header.pop("kind", PERCEPTRON), KINDS | _installed()
        readable = FORMATS.get(kind, 1)
        if written != readable:
            given_format = str(written)[:20]
            raise ValueError(f"it has the format {given_format!r}; this version reads {readable}")
        if kind not in kinds:
            raise ValueError(
                f"{unknown('kind of network', kind, kinds)} Install the package that trained it, "
                f"or the version of coopbench that did"
            )
        facts = {name: header.pop(name) for name in FACTS}
        wrong = [name for name, kind_of in FACTS.items() if type(facts[name]) is not kind_of]
        if wrong:
            raise ValueError(f"it states {wrong[0]} {facts[wrong[0]]!r}")
        return kinds[kind](Content(facts, header, arrays))
    except _BROKEN as error:
        raise ValueError(f"it is not a policy: {type(error).__name__}: {error}") from None

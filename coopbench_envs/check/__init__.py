"""Check: faults of an environment of one's own or of another package, with place and remedy.

Compiled code checks no index and misses no output. ``kernels`` runs an environment's kernels as
Python on arrays that tell which elements were written, and which indices lie outside. ``games``
then compares what the engine promises: a lane with the same game alone, a game that was kept with
one that was restored, and both with partners. ``others`` plays environments of other packages.
"""

from typing import Any

from coopbench_envs.check.faults import Fault
from coopbench_envs.check.games import games_apart
from coopbench_envs.check.kernels import kernels_as_python, signatures
from coopbench_envs.check.others import foreign_faults
from coopbench_envs.choices import LEVELS, as_played, without_levels
from coopbench_envs.engine import Engine
from coopbench_envs.errors import KernelError
from coopbench_envs.foreign_names import is_foreign, permit
from coopbench_envs.registration import spec

__all__ = ["Fault", "check_environment"]


def check_environment(name: str, **parameters: Any) -> list[Fault]:
    """Return the faults of an environment, in the order in which they were found.

    ``name`` is an id, ``FILE.py:SPEC``, or the name of an environment of another package; its code
    is executed. Raises ``ValueError`` for a name or parameters that mean none.
    """
    if is_foreign(name):
        permit(name)
        return list(foreign_faults(name, parameters))
    try:
        environment = spec(name)
        if LEVELS in parameters:  # whose choices the kernels never see
            as_played(environment, parameters)
            parameters = without_levels(parameters)
        found = list(signatures(environment, parameters))
        if found:
            return found
        engine = Engine(environment.id, order="C", **parameters)
        found = list(kernels_as_python(engine))
        # Whatever is wrong with a kernel would be told again, as a difference between games.
        return found or list(games_apart(environment.id, parameters))
    except KernelError as error:
        return [Fault(name, str(error))]

"""Maps of pathfinding. Every file of this folder that defines a MAP is a map of its name."""

from importlib import import_module
from pkgutil import iter_modules

from coopbench_envs.pathfinding.maps.common import Generator


def found() -> dict[str, Generator]:
    """Return what draws the instances of each map, by name."""
    names = sorted(module.name for module in iter_modules(__path__))
    modules = {name: import_module(f"{__name__}.{name}") for name in names}
    return {name: module.MAP for name, module in modules.items() if hasattr(module, "MAP")}

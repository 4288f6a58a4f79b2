"""Loading: environments of other packages, made from their names and keyword arguments."""

import importlib
import importlib.util
import sys
from collections.abc import Callable, Mapping
from importlib.metadata import PackageNotFoundError, packages_distributions, version
from pathlib import Path
from types import ModuleType
from typing import Any

import gymnasium as gym

from coopbench_envs.errors import broken_code
from coopbench_envs.foreign.worlds import World, world_of
from coopbench_envs.foreign_names import check_permitted, handed_over, is_foreign, parse_foreign
from coopbench_envs.own_files import digests_of, module_of
from coopbench_envs.parameters import unknown
from coopbench_envs.registration import added, source_digests, spec

__all__ = ["code_of", "make_world"]

_FRAMEWORKS = ("gymnasium", "pettingzoo")


def make_world(name: str, keywords: Mapping[str, Any]) -> World:
    """Make the environment of a name with keyword arguments of its constructor.

    Raises ``ValueError`` for a name that is not permitted (``foreign_names.permit``), for a package
    that is not installed, and for arguments that the constructor does not take.
    """
    check_permitted(name)
    kind, place, attribute = parse_foreign(name)
    if kind == "gymnasium" and not attribute and not place.endswith(".py"):
        return world_of(_from_gymnasium(name, place, keywords), name)
    maker = handed_over(name) if kind == "python" and not attribute else _maker(name)
    try:
        return world_of(maker(**keywords), name)
    except TypeError as error:
        raise ValueError(f"{name} cannot be made with {dict(keywords)!r}: {error}") from error
    except ImportError as error:
        raise _missing(name, error) from error


def code_of(name: str) -> dict[str, str]:
    """Return the versions of the packages of an environment; of a file, SHA-256 digests.

    A file has its own digest and those of the modules that it imports from its folder. Of a
    function that was handed over nothing is known but the frameworks. Of an environment that
    another package or a file has registered, the digests are those of what this process has
    imported; of one of this package there is nothing to say.
    """
    if not is_foreign(name):
        return _registered(spec(name).module) if name in added() else {}
    check_permitted(name)
    kind, place, attribute = parse_foreign(name)
    if place.endswith(".py"):
        return digests_of(Path(place)) | _versions(_FRAMEWORKS)
    if kind == "python" and not attribute:
        return _versions(_FRAMEWORKS)
    if kind == "gymnasium" and not attribute:
        entry = gym.spec(place.rpartition(":")[2]).entry_point  # the module is imported by now
        module = entry if isinstance(entry, str) else getattr(entry, "__module__", "")
    else:
        module = place
    module = str(module).partition(":")[0]
    top = module.partition(".")[0]
    packages = packages_distributions().get(top, ())
    return _source(module, not packages) | _versions((*packages, *_FRAMEWORKS))


def _registered(module: str) -> dict[str, str]:
    """Return the digests of the file of a module and the versions of its packages."""
    packages = packages_distributions().get(module.partition(".")[0], ())
    return source_digests(module) | _versions(tuple(packages))


def _source(module: str, wanted: bool) -> dict[str, str]:
    """Return the digests of the file of a module and of what it imports from its folder.

    Only if they are ``wanted``: of a module that no installed distribution holds.
    """
    module_spec = importlib.util.find_spec(module) if wanted else None
    if module_spec is None or not module_spec.origin or not module_spec.origin.endswith(".py"):
        return {}
    return digests_of(Path(module_spec.origin), package=module_spec.parent or "")


def _versions(packages: tuple[str, ...]) -> dict[str, str]:
    """Return the versions of distributions; "unknown" for what is not installed as one."""
    versions = {}
    for package in sorted(set(packages)):
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            versions[package] = "unknown"
    return versions


def _from_gymnasium(name: str, env_id: str, keywords: Mapping[str, Any]) -> Any:
    """Return what ``gymnasium.make`` makes."""
    try:
        return gym.make(env_id, disable_env_checker=True, **keywords)
    except (gym.error.UnregisteredEnv, gym.error.DeprecatedEnv) as error:
        raise ValueError(
            f"{name} cannot be made: {error} A package that registers it is named by "
            f"gymnasium:MODULE:ID."
        ) from error
    except (gym.error.DependencyNotInstalled, ImportError) as error:
        raise _missing(name, error) from error
    except TypeError as error:
        raise ValueError(f"{name} cannot be made with {dict(keywords)!r}: {error}") from error


def _maker(name: str) -> Callable[..., Any]:
    """Return the function or class that a name means."""
    _, place, attribute = parse_foreign(name)
    module = _module(name, place)
    for part in [attribute] if attribute else ["parallel_env", "env"]:
        maker: Any = module
        for step in part.split("."):
            maker = getattr(maker, step, None)
        if callable(maker):
            result: Callable[..., Any] = maker
            return result
    if attribute:
        public = [key for key in vars(module) if not key.startswith("_")]
        raise ValueError(unknown("environment", attribute, public, place))
    raise ValueError(
        f"{name} names the module {place}, which has neither parallel_env nor env; name what makes "
        f"the environment: {name}:NAME."
    )


def _module(name: str, place: str) -> ModuleType:
    """Import the module of a name, or execute its file."""
    if place.endswith(".py"):
        return _from_file(Path(place))
    if str(Path.cwd()) not in sys.path:
        sys.path.append(str(Path.cwd()))
    try:
        return importlib.import_module(place)
    except ImportError as error:
        raise _missing(name, error) from error
    except Exception as error:  # the code of another package
        raise ValueError(
            f"{name} cannot be made: importing {place} raises {type(error).__name__}: {error}"
        ) from error


def _from_file(path: Path) -> ModuleType:
    """Execute a file once for each content of it and of the modules of its folder that it uses."""
    if not path.is_file():
        raise ValueError(f"There is no file {path} with an environment.")
    try:
        return module_of(path)
    except Exception as error:
        raise broken_code(str(path), error) from error


def _missing(name: str, error: Exception) -> ValueError:
    """Return the error for a package that is not installed."""
    lacking = getattr(error, "name", None)
    if not lacking and " named '" in str(error):  # what Gymnasium has made of an ImportError
        lacking = str(error).partition(" named '")[2].partition("'")[0]
    if not lacking:
        return ValueError(f"{name} cannot be made: {error}")
    package = str(lacking).partition(".")[0]
    if str(lacking) != package and (there := packages_distributions().get(package)):
        installed = ", ".join(f"{one} {version(one)}" for one in dict.fromkeys(there))
        return ValueError(
            f"{name} cannot be made: {installed} is installed, and has no module {lacking!r}. "
            f"Check the name; another version may have it."
        )
    return ValueError(
        f"{name} cannot be made: there is no module {lacking!r}. Install the package that has it, "
        f"for instance pip install {package}."
    )

"""Model files: models that other libraries have saved, as policies."""

import inspect
from pathlib import Path
from typing import Any

from coopbench.playing.wrapped import Named

SUFFIX = ".zip"  # of the files of Stable-Baselines3
_BARE = (".pt", ".pth", ".safetensors", ".pkl", ".pickle")  # without what plays


def is_model_file(text: str) -> bool:
    """Whether a text names a file of a model, ``FILE.zip`` of Stable-Baselines3.

    Raises ``ValueError`` for a file of other libraries, which holds weights without what plays.
    """
    suffix = Path(text).suffix
    if suffix in _BARE and ":" not in text:
        raise ValueError(
            f"{text!r} does not say what plays with its weights. Allowed: {SUFFIX} files of "
            f"Stable-Baselines3, or FILE.py:OBJECT with the object that loads them."
        )
    return suffix == SUFFIX


def load_model_file(text: str) -> Named:
    """Return the policy in a file that a model of Stable-Baselines3 has saved, under its name.

    Whatever algorithm has trained it, its policy is made from what the file says and gets the
    weights in it. Reading it executes code that the file names: only what a user names is read.
    Raises ``ValueError`` if there is no such file, or if it cannot be read.
    """
    if not Path(text).is_file():
        raise ValueError(
            f"There is no file {text}. Allowed: a file that a model of Stable-Baselines3 has saved."
        )
    try:
        from stable_baselines3.common.save_util import load_from_zip_file
    except ModuleNotFoundError:
        raise ValueError(
            f'{text} needs stable_baselines3, not installed here: the extra "train" brings it: '
            f'pip install ".[train]" in a checkout.'
        ) from None
    try:
        data, weights, _ = load_from_zip_file(text, device="cpu")
        return Named(Path(text).name, _policy(data or {}, weights))
    except Exception as error:  # whatever a damaged or foreign file leads to
        raise ValueError(
            f"{text} cannot be read ({type(error).__name__}: {error}). Allowed: a file that "
            f"model.save(FILE) of Stable-Baselines3 has written; any other model as FILE.py:OBJECT."
        ) from error


def _policy(data: dict[str, Any], weights: dict[str, Any]) -> Any:
    """Return the policy of a saved model with its weights, as its algorithm makes it."""
    kind, options = data["policy_class"], dict(data.get("policy_kwargs") or {})
    if "use_sde" in inspect.signature(kind).parameters:
        options.setdefault("use_sde", bool(data.get("use_sde", False)))
    spaces = data["observation_space"], data["action_space"]
    policy = kind(*spaces, lambda _: 0.0, **options)  # a rate at which nothing will be learned
    policy.load_state_dict(weights["policy"])
    policy.set_training_mode(False)
    return policy

"""Train EPyMARL's QMIX on a battle, with EPyMARL's own runner, learner and configuration.

    git clone https://github.com/uoe-agents/epymarl
    git -C epymarl checkout cbc38c09588064eab978501d0f12c2cf58fa7fc2
    pip install pyyaml torch
    python examples/epymarl_qmix.py epymarl --steps 2000

EPyMARL has no package: its modules are found in its folder ``src``. Its registry of environments
imports the packages of all of them; here it holds ``coopbench_envs.pymarl`` alone. In a checkout of
yours, add ``REGISTRY["coopbench"] = coopbench_envs.pymarl`` to ``src/envs/__init__.py`` and start
``src/main.py`` with ``env`` and ``env_args`` as below.
"""

import argparse
import logging
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import yaml

import coopbench_envs

GAME = {"env": "coopbench/Skirmish-v1", "map": "3m"}


def configuration(folder, steps, seed):
    """Return EPyMARL's configuration of QMIX, with this environment."""
    config = {}
    for file in ("default.yaml", "algs/qmix.yaml"):
        config |= yaml.safe_load((folder / "config" / file).read_text(encoding="utf-8"))
    config |= {"env": "coopbench", "env_args": GAME | {"seed": seed}, "seed": seed}
    config |= {"t_max": steps, "test_interval": steps // 2, "test_nepisode": 8, "batch_size": 8}
    config |= {"log_interval": steps // 4, "runner_log_interval": steps // 4}
    return config | {"learner_log_interval": steps // 4, "use_cuda": False, "unique_token": "run"}


def main():
    """Train, and print what EPyMARL logs."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path, help="checkout of EPyMARL")
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    source = arguments.folder / "src"
    if not source.is_dir():
        parser.error(f"{source} is no folder; name a checkout of EPyMARL.")
    environments = ModuleType("envs")
    environments.REGISTRY = {"coopbench": coopbench_envs.pymarl}
    environments.register_smac = environments.register_smacv2 = lambda: None
    sys.modules["envs"] = environments
    sys.path.insert(0, str(source))
    from run import run_sequential
    from utils.logging import Logger

    logging.basicConfig(level=logging.INFO, format="%(message)s")
    args = SimpleNamespace(**configuration(source, arguments.steps, arguments.seed), device="cpu")
    logger = Logger(logging.getLogger("epymarl"))
    run_sequential(args, logger)
    returns = [value for _, value in logger.stats["test_return_mean"]]
    print(f"Mean returns of the tests: {', '.join(f'{value:.2f}' for value in returns)}")


if __name__ == "__main__":
    main()

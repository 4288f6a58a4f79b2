"""The registry that the tests walk: all environments, with discrete toys among them."""

import toy_pennies
import toy_squad

import coopbench_envs

for spec in (toy_pennies.SPEC, toy_squad.SPEC, toy_squad.SPEC_FREELANCERS):
    coopbench_envs.register(spec)
IDS = coopbench_envs.ids()
# One environment of each kind. What no environment can change, the shells around the engines, is
# tested on these alone: boxes, roles, boxes lane by lane, deaths, drawn teams, plain choices.
KINDS = (
    "coopbench/TrustDilemma-v1",
    "coopbench/PlatformEcosystem-v1",
    "coopbench/Routing-v1",
    "coopbench/Skirmish-v1",
    "test/Squad-v0",
    "test/Pennies-v0",
)

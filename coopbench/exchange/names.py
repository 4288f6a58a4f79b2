"""Names of policies in files for other programs."""

from collections.abc import Mapping, Sequence

from coopbench.analysis.findings import Findings
from coopbench.episodes.table import EpisodeTable
from coopbench_envs.parameters import unknown


def chosen_algorithms(table: EpisodeTable, policies: Mapping[str, str] | None) -> dict[str, str]:
    """Return the names in the file of the policies to export, {policy: name}; None: all.

    Raises ``ValueError`` for a policy that has no results, and for two of one name.
    """
    present = dict.fromkeys(block.cell.policy for block in table)
    for policy in policies or ():
        if policy not in present:
            raise ValueError(unknown("policy", policy, present, "the results"))
    chosen = {policy: policy for policy in present} if policies is None else dict(policies)
    repeated = [name for name in chosen.values() if list(chosen.values()).count(name) > 1]
    if repeated:
        raise ValueError(f"Two policies are to be called {repeated[0]!r}; give them two names.")
    return chosen


def chosen_policies(findings: Findings, texts: Sequence[str] | None) -> dict[str, str] | None:
    """Parse the policies to export from a command line: POLICY, or POLICY=NAME."""
    present = {block.cell.policy for block in findings.episodes}
    names = {}
    for text in texts or ():
        policy, equals, name = text.rpartition("=")
        whole = text in present or not equals
        names[text if whole else policy] = text if whole else name
    return names or None

"""How to read a report: what every number in it means, and what it does not say.

The words are templates of Jinja, the ``reading`` of each section. A paragraph begins with its term
and a colon; an empty line ends it.
"""

import re
from collections.abc import Iterator
from functools import cache
from typing import Any

from coopbench.analysis.aggregates import BEHIND, IQM, RESAMPLES, shown_statistics
from coopbench.analysis.findings import Findings
from coopbench.analysis.learning import RISING
from coopbench.episodes.metrics import known_agent_metrics
from coopbench.report.numbers import level_text
from coopbench.report.sections import readings
from coopbench.report.tables.entries import decisions_text, has_certified_partners, unit_names


def explanations(findings: Findings) -> dict[str, str]:
    """Return how to read the report, as {term: some sentences}."""
    words = _words(findings)
    return {term: text for one in readings() for term, text in _paragraphs(one, words)}


def _words(findings: Findings) -> dict[str, Any]:
    """Return what templates refer to."""
    settings, tasks = findings.protocol.report, findings.protocol.task
    agent_metrics = [known_agent_metrics(task.env) for task in tasks]
    return {
        "findings": findings,
        "settings": settings,
        "level": level_text(findings.protocol),
        "alpha": f"{settings.alpha:g}",
        "margin": f"{settings.margin or 0.0:g}",
        "resamples": max(RESAMPLES, settings.resamples),
        "behind": f"{BEHIND:g}",
        "rising": f"{RISING:g}",
        "units": {*findings.units.values()},
        "over": unit_names(findings.aggregates),
        "partners": any(task.partners for task in tasks),
        "certified_partners": has_certified_partners(findings),
        "agent_metrics": {name: text for some in agent_metrics for name, text in some.items()},
        "statistics": shown_statistics().values(),
        "iqm_methods": sorted({row.method for row in findings.aggregates_of(IQM)}),
        "decisions": decisions_text(findings),
    }


def _paragraphs(template: str, words: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Fill in a template, and iterate over its terms and their texts."""
    for paragraph in _parsed(template).render(words).split("\n\n"):
        term, _, text = re.sub(r"[ \n]+", " ", paragraph).strip().partition(": ")
        if term:
            yield term, text


@cache
def _parsed(template: str) -> Any:
    from jinja2 import Environment, StrictUndefined

    environment = Environment(undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    return environment.from_string(template)

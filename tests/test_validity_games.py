"""The page of validity says what the certificates of the version 1 games hold."""

from pathlib import Path

from coopbench.certificates import load_certificate
from coopbench.protocol.loading import load_protocol

ROOT = Path(__file__).resolve().parent.parent


def test_counts_on_the_page_of_validity_are_those_of_the_certificates():
    """What the page says of all tasks beside partners."""
    page = " ".join((ROOT / "docs/validity.md").read_text(encoding="utf-8").split())
    tasks = [task for task in load_protocol("coopetition-standard").task if task.partners]
    certificates = {task.id: load_certificate(task.env) for task in tasks}
    defecting = [c.score(name, "always_defect") for name, c in certificates.items()]
    scripts = [c.score(name, "script") for name, c in certificates.items()]
    rules = [c.score(name, "memory") for name, c in certificates.items()]
    at_zero = sum(score > -0.035 for score in defecting)
    better = sum(script > rule for script, rule in zip(scripts, rules, strict=True))
    assert f"in {at_zero} of the {len(tasks)} tasks with partners `always_defect` is" in page
    assert f"In {better} of the {len(tasks)} tasks with partners the best script earns" in page
    widths = [100 * (task.bounds.high / task.bounds.low - 1.0) for task in tasks]
    assert f"earn only {min(widths):.0f} to {max(widths):.0f} % more" in page

"""Analysis: an episode table becomes findings: estimates, comparisons, aggregates, ranks."""

"""Studies: searches, measurements and generators behind the data and the claims of this project.

They run from a checkout, ``python -m studies.NAME``, and are no part of the wheel. ``benchmarks/``
measures speed.
"""

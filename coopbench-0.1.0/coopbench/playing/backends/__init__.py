"""Backends: where jobs are done, in this process, in several, or on several machines.

``jobs`` says what a job is; ``processes`` and ``ray_tasks`` are backends; ``choice`` lists all of
them by name.
"""

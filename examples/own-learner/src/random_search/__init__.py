"""Random search: a learner for coopbench."""

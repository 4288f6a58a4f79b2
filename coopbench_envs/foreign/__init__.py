"""Environments of other packages, played like those of this one: PettingZoo's and Gymnasium's.

They are Python objects, one per lane, and nothing of them is compiled. Episodes, metrics, training,
reports and comparisons are the same; equal bits on all machines, speed and states to watch are not.
"""

"""Engines on a GPU: the kernels of the CPU, one thread for each lane, with the same bits.

Importing this package loads neither numba-cuda nor a driver; both are needed only where an engine
is made with ``device="cuda"``.
"""

"""Kernels that count the candidates above a positive: in NumPy, and in Numba where it is installed."""

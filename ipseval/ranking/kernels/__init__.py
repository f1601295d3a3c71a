"""What counts the candidates above a positive: NumPy, and Numba where it is installed."""

"""Queries over committed datasets: running and counted ones, their pages, and the comparison of two
results."""

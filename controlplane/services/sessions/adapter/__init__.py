"""Processes and pods that serve Spark Connect."""

"""Processes of the data plane that answer questions of tests."""

"""Processes of the data plane and the protocol that they speak: claim, run, report."""

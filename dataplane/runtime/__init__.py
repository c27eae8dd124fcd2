"""Processes of the data plane and the protocol that they speak: claim, run, report.

Does not belong here: what a task does (`transform`, `connectors`, `fragments`).
"""

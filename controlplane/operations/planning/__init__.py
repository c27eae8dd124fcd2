"""From a snapshot of the database to a plan, and from the plan to a transaction.

Does not belong here: what is decided (`core.plan`), when (`reconciler`).
"""

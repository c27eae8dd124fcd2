"""The store without a database, module by module the twin of `controlplane.store.sql`.

Does not belong here: decisions.
"""

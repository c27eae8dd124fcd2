"""A process that answers queries, for callers on other machines: one of them at a time.

Does not belong here: what is answered (`spark_query`), and where the pod runs (control plane).
"""

"""Services beside the kernel: features that read what the kernel has committed, and change nothing
that it decides.

Problem: queries, Spark sessions, the S3 view, Delta Sharing, tests of blueprints, lineage events
and editors each need operations, a port and an adapter. None of them is needed to keep datasets up
to date. Idea: each has one folder with all three. `port` says what the service needs from outside,
`adapter` implements it. `register` joins them: the parts of a process call it, and nothing else
imports an adapter. Example: `services/queries/queries.py` runs a query, `port.py` names the engine,
`adapter/query_pool.py` starts DuckDB, and `register.queries(...)` gives the API its `Queries`.
"""

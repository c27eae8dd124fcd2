"""The data plane: processes that list sources, run Spark and write files; they pull work over HTTP.

Does not belong here: anything that knows the metadata database, plans, or commits.
"""

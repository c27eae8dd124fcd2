"""The connector `jdbc`: tables and queries of PostgreSQL, listed and written by a worker, read by Spark.

Does not belong here: other databases, until they are proved against a real server.
"""

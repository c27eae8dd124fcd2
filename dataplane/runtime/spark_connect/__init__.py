"""A Spark Connect server for one user, with committed datasets as its views.

Does not belong here: queries of pages and of the API, which go to `spark_query` or `dataplane.query`.
"""

"""The files of a lake: in a local folder, in an object store, or in HDFS. Both planes use them.

Nothing here imports Spark or Arrow, and a client library is imported only for a lake that needs it.
"""

"""The files of a lake: in a local folder, in an object store, or in HDFS. Both planes use them.

Nothing here imports Spark or Arrow, and a client library is imported only for a lake that needs it. Does not belong
here: what files hold; how Spark reads and writes them (storage); what the control plane keeps there.
"""

"""One JVM and its Spark session: jars, settings, start, end, and errors in words.

Does not belong here: what is asked of the session.
"""

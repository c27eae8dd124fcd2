"""One JVM and its Spark session: jars, settings, start, end, and errors in words."""

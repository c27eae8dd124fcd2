"""The connector `delta`: tables elsewhere.

They are listed without a JVM, read by Delta's own code, and written a commit at a time.
"""

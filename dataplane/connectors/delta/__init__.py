"""The connector `delta`: tables elsewhere, listed without a JVM, read by Delta's own code, written a commit at a time.

Does not belong here: the tables that Headgate publishes (the control plane's).
"""

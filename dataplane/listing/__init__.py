"""Listing of file locations: match a glob, identify each file by version, group files into
partitions. No JVM."""

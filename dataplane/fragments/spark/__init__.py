"""Fragments written, read and checked with Spark. Nothing beside this folder imports pyspark."""

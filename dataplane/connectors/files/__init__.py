"""The connector `files`: source files of text, JSON, CSV, Parquet and ORC into fragments, and copies as files.

Does not belong here: listing (`dataplane.listing`), which Delta tables share.
"""

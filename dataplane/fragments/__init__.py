"""Rows in the Parquet files of the lake: writing, measuring, reading and checking them.

Does not belong here: where the files lie (`storage`), how rows are computed (`transform`, `connectors`).
"""

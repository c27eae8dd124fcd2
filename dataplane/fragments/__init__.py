"""Rows in the Parquet files of the lake: measuring, reading and comparing them. What needs Spark is
in `spark`."""

"""Rows in the Parquet files of the lake: writing, measuring, reading and checking them."""

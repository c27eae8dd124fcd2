"""The connector `jdbc`: tables and queries of PostgreSQL, listed and written by a worker, read by
Spark."""

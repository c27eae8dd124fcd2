"""The connector `jdbc`: tables and queries of databases, listed and written by a worker, read by
Spark.

Problem: SQL and snapshots differ between databases. Idea: the differences are the methods of a
`DatabaseDialect`; listing, writing and checks stand once, over it. Example: `dialects.DIALECTS` has
PostgreSQL, MariaDB, MySQL, SQL Server, Oracle, Redshift and Snowflake. A `WritableDialect` also has
the words for copies; the last two are sources alone.

`jdbc_listing` gives slices and their versions, `jdbc_writer` keeps copies. Spark reads PostgreSQL
by its own JDBC source (`postgresql_reader`), and the others by their clients (`client_reader`).
"""

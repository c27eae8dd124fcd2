"""The connector `jdbc`: tables and queries of databases, listed and written by a worker, read by
Spark.

Problem: databases say the same in different words, and know snapshots that differ. Idea: all that
they say differently is a `DatabaseDialect`; what is done stands once, over it. Example: `dialects.DIALECTS`
has PostgreSQL, MariaDB and MySQL.

`jdbc_listing` gives slices and their versions, `jdbc_writer` keeps copies. Spark reads PostgreSQL by
its own JDBC source (`postgresql_reader`), and the others by their clients (`client_reader`).
"""

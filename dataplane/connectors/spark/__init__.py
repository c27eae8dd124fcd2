"""The connector `spark`: any data source of Spark by its name, or a user's own `DataSource` class.

What lies there cannot be listed without Spark. The component says what its partitions are, and when
they are read again.
"""

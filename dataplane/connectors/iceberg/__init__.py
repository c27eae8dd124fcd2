"""The connector `iceberg`: tables of Apache Iceberg that others write.

A snapshot of a table names its data files and the files of deletes that apply to them. Each data
file is a partition of our dataset. So a late file is a partition that the next snapshot adds, and a
withdrawn file is one that it lacks.

    address -> metadata -> snapshot -> manifests -> data files, deletes -> rows by field id

`table_address` finds the metadata, `open_table` chooses snapshot and schema, `iceberg_listing`
names the files (worker), `iceberg_reader` reads their rows (driver). pyiceberg parses metadata,
plans and reads. Its catalogues are not used: they import classes that a server names.
"""

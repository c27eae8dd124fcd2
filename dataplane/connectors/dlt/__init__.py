"""The connector `dlt`: REST APIs and services, by resources of the library dlt.

An API does not give the same rows twice, so a listing fetches them. Each fetch is a *load*: a
Parquet file in the lake, with the rows as JSON and, in its metadata, the state (cursors) that the
next load begins with. A listing names loads; the driver reads their rows under the declared
columns. So a load and its state come into use together, with the listing that names them.

dlt itself lives in a folder of packages of its own. `extraction` imports it, in the process that
lists.
"""

"""SQL over committed files by DuckDB, in processes that can read and write nothing else.

Does not belong here: which files a table has, who may read them, and where results are kept (control plane).
"""

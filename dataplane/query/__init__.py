"""SQL over committed files by DuckDB, in processes that can read and write nothing else."""

"""SQL over committed files by Spark, in a process that serves queries and nothing else."""

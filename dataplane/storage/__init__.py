"""Where bytes lie: the lake, and the stores that source files are read from."""

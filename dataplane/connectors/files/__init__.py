"""The connector `files`: source files of text, JSON, CSV, Parquet and ORC into fragments, and
copies as files."""

"""The connector `files`: source files of text, JSON, CSV, Parquet, ORC and Avro into fragments, and
copies as files."""

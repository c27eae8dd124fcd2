"""What is asked of a dataset's records: columns, a condition on rows, and which files it leaves out. Pure."""

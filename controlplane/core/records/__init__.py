"""A reader's request for a dataset's records: columns, a condition on rows, and the files that the
condition rules out. Pure."""

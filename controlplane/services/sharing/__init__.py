"""What recipients of Delta Sharing find: shared datasets, their versions, and the files of these.
Changes nothing."""

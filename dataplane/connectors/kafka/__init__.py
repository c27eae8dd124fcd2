"""The connector `kafka`: slices of topics as sources, and topics that hold the last row of each
key."""

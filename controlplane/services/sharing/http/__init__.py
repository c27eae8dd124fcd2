"""The server of Delta Sharing: shared datasets for clients of that protocol, with tokens of
recipients."""

"""The protocol of Delta Sharing as values: its requests and the lines of its answers. Pure."""

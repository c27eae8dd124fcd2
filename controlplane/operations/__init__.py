"""Use cases. Each is one transaction, committed before it returns; HTTP and terminals are added
elsewhere."""

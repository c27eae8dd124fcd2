"""Tables of Iceberg (format version 2) as values: schemas, metadata and manifests of committed
states. Pure."""

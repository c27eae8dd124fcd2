"""The S3 view: a read-only endpoint in the protocol of S3, for all that reads Parquet and Delta
from there."""

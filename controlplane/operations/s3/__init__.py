"""What the S3 view shows of committed states: pages of objects, and single ones. Changes nothing.

Does not belong here: the protocol of S3 (`api.s3`); names and addresses (`core.s3`).
"""

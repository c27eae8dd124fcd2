"""What the S3 view shows: names of objects, their paths, scopes of keys, and Delta logs. Pure.

Does not belong here: the protocol (`api.s3`), and finding states (`operations.inspect.s3_view`).
"""

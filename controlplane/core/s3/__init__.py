"""What the S3 view shows: names of objects, their paths, scopes of keys, and Delta logs. Pure."""

"""HTTP at the edge: routes that call one operation each, authentication, problems, limits. No
decisions and no SQL."""

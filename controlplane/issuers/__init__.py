"""Adapter: issuers of identity tokens, queried over HTTP and verified with PyJWT."""

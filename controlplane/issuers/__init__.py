"""Adapter: issuers of identity tokens, asked over HTTP and checked with PyJWT."""

"""Adapter: issuers of identity tokens, asked over HTTP and checked with PyJWT.

Does not belong here: which issuers are trusted, and with what (`operations.desired.trust`).
"""

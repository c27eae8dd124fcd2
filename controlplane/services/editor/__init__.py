"""Support for editors: files of a new project, schema and snippets, ranges of problems, and a
language server.

It knows blueprints, and a service only through the client.
"""

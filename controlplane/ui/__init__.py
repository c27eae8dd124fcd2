"""Web pages over the operations. A page is one value: rendered by a template, or the same as JSON.

Nothing here decides or stores anything: operations give the content of pages.
"""

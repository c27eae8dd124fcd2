"""One module of routes per resource. A route reads its request, calls one operation, and answers
with its value."""

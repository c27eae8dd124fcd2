"""The parts of a control plane: a builder for each, and the roles of a process as data.

A part gets the foundation (settings, role, store) and pushes its end on `foundation.ends`.
Functions import the heavy modules that they need: a `run` with nothing to do is mostly the time
that imports take.
"""

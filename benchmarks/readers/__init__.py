"""A matrix of readers: each engine, by each way in, at each state of a dataset with every type.

`docs/readers.md` has one example for each engine and way. A run starts a service, executes these
very examples with its own addresses, and compares each column with the rows that were put in.
A difference is a gap that `gaps.toml` names with its reason, or the run fails; so does a gap that
is not there any more.
"""

"""What property worlds need of a store, in memory: a twin of `controlplane.store.sql`, which is 2.5
times as slow.

`tests/store/test_twins.py` compares the two. Tests of other folders use SQLite (`tests.stores`).
"""

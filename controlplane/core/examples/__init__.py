"""Tests of blueprints: which rows each input is given, and whether a result is the expected one.

Does not belong here: the language (blueprint), running code (the data plane), what is told to users (operations).
"""

"""Tests of blueprints: which rows each input is given, and whether a result is the expected one."""

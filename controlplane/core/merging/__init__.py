"""Merging of blueprints' texts, component by component. Pure; knows no store and compiles
nothing."""

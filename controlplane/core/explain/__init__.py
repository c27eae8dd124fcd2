"""Why something will run, ran, or did not: causes read off plans and states. Pure.

lineage    the upstream of a dataset, and the source objects behind it
steps      from one state of a dataset to another one, and the difference between them
audit      who applied, forced and paused
causes     the tree of causes, down to source objects and edits
words      causes in sentences
stops      changes that ended in equal rows
held_up    why a dataset is not worked on
"""

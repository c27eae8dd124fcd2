"""The control plane: stores blueprints, compares them with what has been computed, and hands out the difference.

Import direction: bootstrap > (api | cli | reconciler) > operations > ports > core. The only thing shared with the
data plane is `dataplane.contract`.
"""

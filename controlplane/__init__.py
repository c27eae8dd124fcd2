"""The control plane: stores blueprints, compares them with the computed state, and hands out the
difference as work.

Import direction: bootstrap > parts > (api | cli | reconciler) > ui > services > operations > ports
> core. The only thing shared with the data plane is `dataplane.contract`.
"""

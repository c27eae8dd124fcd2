"""Words for ends of drivers that need no look. All other ends are part of the status."""

from __future__ import annotations

AS_REQUESTED = "ended as asked"
BY_ITSELF = "exited with code 0"
WITH_ITS_MAKER = "the control plane that started it ended"
GONE = "it is not there any more"  # for no reason that was noted
LAUNCHED = "launched after all"
SILENT = "fell silent: killed"  # it ran, and did not call for longer than its lease
ENDING = "is being ended"  # of one that has not ended yet
STARTING = "Spark is starting"  # of one that runs and has no session yet

EXPECTED = frozenset({"", AS_REQUESTED, BY_ITSELF, WITH_ITS_MAKER, LAUNCHED})

"""Sending alerts: to a web service, to Slack, by e-mail, or to a command of the operator's.

Does not belong here: what is told, and when (control plane); trying again.
"""

"""Sending alerts: to a web service, to Slack, by e-mail, or to a command of the operator's."""

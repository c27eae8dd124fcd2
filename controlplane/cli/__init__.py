"""The command line: a thin client of the API, and how its answers are shown. No decisions about
dataflows."""

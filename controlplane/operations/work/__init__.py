"""The server side of the drivers' protocol: claims, heartbeats, reports, rescue."""

"""The scheduler service: virtual time, tags, estimates, journal and metrics, over gRPC."""

"""Workloads to simulate: drawn from tables, read from traces, or recorded from real agents."""

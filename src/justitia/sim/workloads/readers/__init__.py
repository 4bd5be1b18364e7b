"""Traces of other projects as scenarios: ``read_trace`` of ``readers.registry``."""

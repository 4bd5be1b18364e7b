"""Justitia: fair and fast scheduling of LLM applications on shared vLLM pools."""

__version__ = "0.1.0"

"""The fast engine: vLLM's planning of a step over counters, many decode steps in one go."""

"""Virtual-time fair queuing over KV token-time, as pure Python.

The scheduler service, the vLLM plugin (when it is on its own) and the simulator make the same calls
into this package. Nothing here reads a clock, draws a random number, logs or does I/O: times come
in as arguments, facts go out as values. Rules cited as "rule V2" are those of
``docs/algorithm.md``.
"""

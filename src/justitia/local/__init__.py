"""Local mode: the scheduler service and a real vLLM on one machine, from the same manifests.

Processes, the small model, the workload of real agents, the comparison of policies and its report.
"""

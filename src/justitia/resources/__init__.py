"""Resources of group ``justitia.dev/v1alpha1`` as every part of Justitia reads them.

The schemas in ``crds/`` are the API server's word on the same resources; local mode, the command
line and the operator read them here, with the same names, defaults, ranges and sentences. Needs
pydantic alone.
"""

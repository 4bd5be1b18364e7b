"""The one error that local mode shows to its user."""


class LocalModeError(RuntimeError):
    """Something outside the program stops local mode: a download, a port, a folder.

    The message is one sentence about what went wrong and one about what to do next; the command
    line prints it as it stands, without a traceback.
    """

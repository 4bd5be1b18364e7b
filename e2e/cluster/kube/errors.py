"""What can go wrong with a test cluster, and how progress is told."""

from collections.abc import Callable

#: Called with one short sentence for each step that takes a while.
Progress = Callable[[str], None]


class ClusterError(RuntimeError):
    """The cluster, or a program it needs, failed; the message names the log and quotes its end."""


class NoClusterError(ClusterError):
    """This machine cannot have a cluster; the message is the reason that a skipped test shows."""


class CommandError(ClusterError):
    """A command against the cluster failed; ``output`` is what it said."""

    def __init__(self, command: str, status: int, output: str) -> None:
        super().__init__(f"{command}: status {status}\n{output}")
        self.output = output

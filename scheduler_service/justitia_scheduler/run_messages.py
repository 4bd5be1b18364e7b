"""One run as the API shows it, open or ended."""

from justitia.api.v1 import run_pb2
from justitia.core.errors import UnknownRunError
from justitia_scheduler import convert
from justitia_scheduler.pools import PoolService


def run_message(pool: PoolService, run_id: str) -> run_pb2.Run:
    """Write a run.

    Raises:
        UnknownRunError: neither open nor among the ended runs that are remembered.
    """
    facts = pool.facts.get(run_id)
    if facts is not None:
        return convert.open_run(pool.name, pool.core.run(run_id), facts.arrived_wall_s)
    ended = pool.ended.get(run_id)
    if ended is None:
        raise UnknownRunError(run_id)
    return convert.ended_run(pool.name, ended)

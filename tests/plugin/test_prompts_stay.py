"""No prompt leaves the engine's pod: the session with the service has no place to put one."""

from justitia.api.v1 import engine_pb2

#: Every text of the session and what it is; none of them is made from a prompt.
NAMES = {
    "pool",
    "engine_id",
    "incarnation",
    "vllm_version",
    "plugin_version",
    "policy",
    "model",
    "model_version",
    "run_id",
    "application",
    "closed_run_ids",
    "ended_run_ids",
    "ticks",
}


def texts_of(message, seen=None):
    """Names of all string and bytes fields of a message and of those inside it."""
    seen = set() if seen is None else seen
    if message.full_name in seen:
        return
    seen.add(message.full_name)
    for field in message.fields:
        if field.type in (field.TYPE_STRING, field.TYPE_BYTES):
            yield field.name
        elif field.message_type is not None:
            yield from texts_of(field.message_type, seen)


def lists_of_numbers(message, seen=None):
    seen = set() if seen is None else seen
    if message.full_name in seen:
        return
    seen.add(message.full_name)
    for field in message.fields:
        if field.message_type is not None:
            yield from lists_of_numbers(field.message_type, seen)
        elif field.is_repeated and field.type != field.TYPE_STRING:
            yield field.name


def test_the_session_carries_names_and_single_numbers_only():
    """A new field that could hold a prompt, as text or as its tokens, has to be argued here."""
    for message in (engine_pb2.EngineMessage, engine_pb2.EngineDirective):
        assert set(texts_of(message.DESCRIPTOR)) <= NAMES
        assert set(lists_of_numbers(message.DESCRIPTOR)) == set()

"""Set-up that every folder of tests shares."""

import asyncio
import signal

# Without this, pytest-asyncio asks for the main thread's loop before there is one; Python 3.11 then
# makes one that nobody closes, and the warning about it fails the session.
asyncio.set_event_loop(None)

# What a shell runs in its background ignores Ctrl-C. Tests send it to themselves, and would wait.
signal.signal(signal.SIGINT, signal.default_int_handler)

"""The command ``justitia``, one module each subcommand; heavy imports stay inside functions."""

"""The exact engine: vLLM's own scheduler and KV cache with the plugin in it, on a virtual clock."""

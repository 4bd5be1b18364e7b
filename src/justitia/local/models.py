"""The model folder that an engine serves."""

from pathlib import Path

from rich.console import Console

from justitia.local.engine_kind import EngineKind
from justitia.local.small_model import ensure_small_model
from justitia.local.tiny_model import ensure_tiny_model


def ensure_model(engine: EngineKind, cache_dir: Path, console: Console) -> Path:
    """Fetch the small model, or make the emulator's tiny one, if it is not there.

    Raises:
        LocalModeError: the download or the conversion failed.
    """
    ensure = ensure_small_model if engine is EngineKind.CPU else ensure_tiny_model
    with console.status("model") as status:
        return ensure(cache_dir, progress=status.update)

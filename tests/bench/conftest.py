"""Benchmarks as modules: they are programs, and no package holds them."""

import importlib.util

import pytest


@pytest.fixture(scope="module")
def load(request):
    """Load a module by its name from the folder that the test file calls ``FOLDER``."""
    folder = request.module.FOLDER
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(folder))

        def load_one(name):
            spec = importlib.util.spec_from_file_location(
                f"{folder.name}_{name}", folder / f"{name}.py"
            )
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
            return module

        yield load_one

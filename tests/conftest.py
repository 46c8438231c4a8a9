"""Settings for all tests: repeatable property tests, skipping what cannot run."""

import pytest
from hypothesis import settings

# Repeatable: a failure here is a failure everywhere. No time limit per example, since
# the machine may be busy.
settings.register_profile("repeatable", deadline=None, derandomize=True, database=None)
settings.load_profile("repeatable")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--network", action="store_true", help="also run tests that use the internet"
    )


def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> None:
    if not config.getoption("--network"):
        skip = pytest.mark.skip(reason="uses the internet; run with --network")
        for item in items:
            if "network" in item.keywords:
                item.add_marker(skip)
    on_gpu = [item for item in items if "gpu" in item.keywords]
    if on_gpu and not _has_gpu():
        for item in on_gpu:
            item.add_marker(pytest.mark.skip(reason="no CUDA device"))


def _has_gpu() -> bool:
    torch = pytest.importorskip("torch")
    return bool(torch.cuda.is_available())

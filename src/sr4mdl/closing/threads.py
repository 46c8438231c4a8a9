"""One BLAS thread while closing runs.

The matrix products here are small: a second thread costs more in waiting than it
saves, most of all when the search keeps the other cores busy, and sums split over
threads need not be the same from run to run.
"""

from contextlib import AbstractContextManager
from functools import lru_cache
from typing import Any


@lru_cache(maxsize=1)
def _controller() -> Any:
    # Imported late: looking for the loaded libraries takes milliseconds.
    from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]

    return ThreadpoolController()


def single_thread() -> AbstractContextManager[Any]:
    """Return a context in which BLAS uses one thread."""
    context: AbstractContextManager[Any] = _controller().limit(
        limits=1, user_api="blas"
    )
    return context

"""When the command began: imported before all that is slow."""

from time import perf_counter

BEGAN = perf_counter()
"""By `time.perf_counter`."""

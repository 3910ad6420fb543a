"""The store of paid replies, results and runs: an SQLite file or a PostgreSQL database."""

DEFAULT_FILE = "cache.sqlite"
"""Default file of the store, in the working directory."""

"""The store of paid replies, results and runs: an SQLite file or a PostgreSQL database."""

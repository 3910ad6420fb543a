"""The store: paid replies, results and runs in an SQLite file or a PostgreSQL database."""

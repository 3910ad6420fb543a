"""The store is what has been paid for and found out, on disk: SQLite or any SQLAlchemy URL."""

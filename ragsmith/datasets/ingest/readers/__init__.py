"""Readers convert the bytes of a file to Markdown, or to CSV for tables.

The reader is chosen by the content of a file, and by its name only among texts (`choosing`).
"""

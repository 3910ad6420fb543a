"""Readers convert the bytes of a file to Markdown, or to CSV for tables.

The reader is chosen by the content of a file; the name decides only between text formats (`part.choose_reader`).
"""

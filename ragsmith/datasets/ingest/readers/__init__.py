"""A reader turns the bytes of a file into texts: Markdown for what has headings and paragraphs, CSV for tables.

Which reader a file gets is decided by what is in it first, and by its name only among texts (`choosing`).
"""

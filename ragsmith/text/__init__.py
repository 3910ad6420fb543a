"""Text: words and sentences, Markdown, strict YAML and JSON lines, redaction, spelling suggestions, BM25.

Nothing here knows of data sets, models or pipelines.
"""

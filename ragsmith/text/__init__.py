"""Text processing: words, sentences, Markdown, strict YAML, JSON lines, redaction, suggestions for names, and BM25.

These modules do not import those of data sets, models or pipelines.
"""

"""A cutter divides the text of a document into parts of bounded size, along the structure that such texts have.

There is one for Markdown and plain text, one for source code and one for tables; they share the tools in `pieces`.
"""

"""Split documents into chunks of bounded size along their structure.

There is one splitter for Markdown and plain text, one for source code and one for tables; they share `pieces`.
"""

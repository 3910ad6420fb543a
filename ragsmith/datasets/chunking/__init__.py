"""Split documents into chunks of bounded size along their structure.

Markdown and plain text, source code, and tables each have a splitter; the splitters share `pieces`.
"""

"""Integrations let tools that a team uses already see what ragsmith found, and hand ragsmith what they have.

Each is one file, named after the package that it needs, and is imported by whoever wants it and by nothing else here.
`found` is what all retrievers hand on.
"""

"""Web page for the review of drafted questions by keyboard, served to this machine only.

``page.html``, ``page.css`` and ``page.js`` are combined into one page without external resources, which ``server.py``
serves.
"""

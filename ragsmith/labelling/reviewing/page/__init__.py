"""A page in one's own browser, on which drafted questions are reviewed by keyboard.

``server.py`` answers this machine alone; ``page.html``, ``page.css`` and ``page.js`` are put together into one page,
which fetches nothing else.
"""

"""Marking of answers by people, on a page in the style of reviews: right, partly, wrong or cannot tell.

``marking`` has the answers of a run and writes the marks; ``page.html``, ``page.css`` and ``page.js`` are its page.
"""

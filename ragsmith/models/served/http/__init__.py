"""The HTTP client of providers and its event loop, imported with the first request."""

"""Served models: clients of servers, and the provider that limits, retries and cancels their requests."""

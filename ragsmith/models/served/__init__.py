"""Served models: clients of servers, and the provider that bounds, retries and stops what they send."""

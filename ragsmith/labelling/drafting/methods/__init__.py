"""Drafting methods: prompts for a chat model, and the selection of the passages to which they apply."""

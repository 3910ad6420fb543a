"""The gateway between techniques and models, which caches, deduplicates, budgets and counts calls."""

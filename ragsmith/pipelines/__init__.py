"""A pipeline is one technique of each family; here genes become pipelines, and pipelines answer questions."""

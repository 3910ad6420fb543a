"""Search a space of pipelines on a data set, and choose and test the winner."""

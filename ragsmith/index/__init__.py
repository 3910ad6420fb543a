"""An index is what a pre-embedding made of the chunks of a corpus, ready to be searched: by words, vectors, graphs."""

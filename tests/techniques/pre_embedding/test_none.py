from ragsmith.techniques.pre_embedding.none import none


def test_the_only_key_is_the_text(chunks):
    entries = none(chunks)
    assert [entry.chunk for entry in entries] == list(chunks)
    assert all(entry.keys == (entry.chunk.text,) for entry in entries)

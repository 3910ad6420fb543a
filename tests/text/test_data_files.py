"""Data files are read with the digest that the code names."""

import pytest

from ragsmith.text.data_files import read_data
from ragsmith.text.languages import STOP_WORDS_DIGEST


def test_a_data_file_is_read_if_its_digest_is_the_one_in_the_code():
    assert '"en"' in read_data("ragsmith.text", "stop_words.json", STOP_WORDS_DIGEST)
    with pytest.raises(RuntimeError, match=f"has the digest {STOP_WORDS_DIGEST}, not 0000"):
        read_data("ragsmith.text", "stop_words.json", "0000")

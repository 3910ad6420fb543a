"""Diagnosed questions are stored and read again."""

from __future__ import annotations

import pytest

from ragsmith.diagnosis.causes import Cause
from ragsmith.diagnosis.diagnosed import Diagnosed


def test_what_is_stored_comes_back() -> None:
    for cause in Cause:
        assert Diagnosed.stored(Diagnosed(cause, 2, 1).plain()) == Diagnosed(cause, 2, 1)
    with pytest.raises(ValueError, match="'above k' is not a valid Cause"):
        Diagnosed.stored({**Diagnosed(Cause.NOT_RETRIEVED, 2, 1).plain(), "cause": "above k"})

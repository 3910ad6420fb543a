"""What is kept of diagnosed questions."""

from __future__ import annotations

import pytest

from ragsmith.diagnosis.causes import Cause
from ragsmith.diagnosis.diagnosed import Diagnosed


def test_what_is_kept_comes_back_and_by_the_name_that_it_has_now() -> None:
    for cause in Cause:
        assert Diagnosed.stored(Diagnosed(cause, 2, 1).plain()) == Diagnosed(cause, 2, 1)
    earlier = {**Diagnosed(Cause.NOT_RETRIEVED, 2, 1).plain(), "cause": "below k"}
    assert Diagnosed.stored(earlier).cause is Cause.NOT_RETRIEVED
    with pytest.raises(ValueError, match="'above k' is not a valid Cause"):
        Diagnosed.stored({**earlier, "cause": "above k"})

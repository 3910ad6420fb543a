"""Diagnosed questions are stored and read again."""

from __future__ import annotations

import pytest

from ragsmith.diagnosis.causes import Cause
from ragsmith.diagnosis.diagnosed import QuestionDiagnosis
from ragsmith.errors import UsageError


def test_what_is_stored_comes_back() -> None:
    for cause in Cause:
        assert QuestionDiagnosis.from_dict(QuestionDiagnosis(cause, 2, 1).to_dict()) == QuestionDiagnosis(cause, 2, 1)
    with pytest.raises(UsageError, match=r"cannot be read .'above k' is not a valid Cause"):
        QuestionDiagnosis.from_dict({**QuestionDiagnosis(Cause.NOT_RETRIEVED, 2, 1).to_dict(), "cause": "above k"})

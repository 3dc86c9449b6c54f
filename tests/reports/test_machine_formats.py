"""Do JSON and CSV keep every figure?"""

from __future__ import annotations

import csv
import io
import json

import numpy as np
import pytest
from documents import document

from warpsight.reports.formats import documents_json, json_text, predictions_csv

pytestmark = pytest.mark.unit


def test_json_of_one_document_is_an_object_that_reads_back_equal() -> None:
    assert json.loads(documents_json([document()])) == document()


def test_json_of_several_documents_is_a_list() -> None:
    assert json.loads(documents_json([document(), document(model="gpumech")]))[1]["model"] == "gpumech"


def test_json_of_nan_is_refused() -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        json_text({"cpi": float("nan")})


def test_json_of_numpy_values_is_plain() -> None:
    assert json.loads(json_text({"a": np.float64(0.5), "b": np.arange(3)})) == {"a": 0.5, "b": [0, 1, 2]}


def test_csv_of_two_models_has_every_figure_in_full() -> None:
    first, second = document(), document({"base": 1 / 3, "own": 2 / 3}, model="other", dpki=None)
    rows = list(csv.DictReader(io.StringIO(predictions_csv([first, second]))))
    assert [row["model"] for row in rows] == ["mdm", "other"]
    assert float(rows[1]["cpi_stack.base"]) == 1 / 3
    assert rows[0]["cpi_stack.own"] == ""
    assert rows[1]["dpki"] == ""
    assert float(rows[0]["seconds"]) == first["seconds"]

"""Does any study end in documents, texts and pictures, or in an error that says why not?"""

from __future__ import annotations

from collections.abc import Callable
from xml.etree import ElementTree

import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st
from study_tables import Results, results, term

from warpsight.base.errors import WarpsightError
from warpsight.reports.formats import plain
from warpsight.reports.sweep_answers import answer_text, energy_text
from warpsight.reports.sweep_pictures import answer_picture
from warpsight.sweeps.answers.best import best, pareto
from warpsight.sweeps.answers.energy import energy
from warpsight.sweeps.answers.maps import design_map, speedups
from warpsight.sweeps.answers.selection import Selection, select
from warpsight.sweeps.answers.sensitivity import sensitivity

NAMES = st.sampled_from(["sm_count", "dram.bandwidth", "core_clock", "l1.size", "launch.block", "density"])
COLUMNS = st.one_of(
    st.lists(st.sampled_from([0.0, 1.0, 2.5, 1e9, -3.0]), min_size=20, max_size=20),
    st.lists(st.floats(1e-300, 1e300), min_size=20, max_size=20),
    st.lists(st.sampled_from(["lrr", "gto", ""]), min_size=20, max_size=20),
    st.lists(st.booleans(), min_size=20, max_size=20),
)
TIMES = st.lists(st.floats(1e-12, 1e12), min_size=20, max_size=20)
COST = term("design ^ 2", lambda number: (number - 5) ** 2, "design")


@st.composite
def studies(draw: st.DrawFn) -> Results:
    count = draw(st.integers(1, 20))
    keys = {name: each[:count] for name, each in draw(st.dictionaries(NAMES, COLUMNS, min_size=1, max_size=3)).items()}
    seconds = {f"k{n}": draw(TIMES)[:count] for n in range(draw(st.integers(1, 3)))}
    cells = st.tuples(st.integers(1, 20), st.sampled_from(sorted(seconds)))
    failed, missing = draw(st.dictionaries(cells, st.text(min_size=1), max_size=3)), draw(st.lists(cells, max_size=3))
    return results(keys, seconds, failed=failed, missing=missing)


ANSWERS: dict[str, Callable[[Selection], dict]] = {
    "best": best,
    "pareto": lambda selection: pareto(selection, [COST]),
    "sensitivity": sensitivity,
    "speedups": speedups,
    "axis": lambda selection: speedups(selection, axis=selection.results.axes[-1]),
    "map": lambda selection: design_map(selection, selection.results.axes[0], selection.results.axes[-1], others="best"),
    "dvfs": energy,
}


@pytest.mark.property
@settings(max_examples=25)
@given(study=studies(), metric=st.sampled_from(["geomean", "total", "worst", "k0"]))
def test_any_study_is_answered_or_refused_in_words(study: Results, metric: str) -> None:
    for answer, ask in ANSWERS.items():
        note(answer)
        try:
            document = ask(select(study, metric=metric))
        except WarpsightError as error:
            assert error.what
            assert error.remedy
            continue
        assert plain(document) == document
        text = energy_text(document) if answer == "dvfs" else answer_text(document)
        assert max(map(len, text.splitlines())) <= 120
        picture = answer_picture(document)
        assert picture is None or ElementTree.fromstring(picture).tag.endswith("svg")

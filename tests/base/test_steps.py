"""Do notes and steps reach the listeners of their own run, and of no other?"""

from __future__ import annotations

from threading import Barrier, Thread

import pytest

from warpsight.base.progress import listening, note, remark, step

pytestmark = pytest.mark.unit


def test_two_threads_do_not_mix_their_steps() -> None:
    told: dict[str, list[str]] = {"one": [], "two": []}
    together = Barrier(2, timeout=120)

    def run(name: str) -> None:
        with listening(told[name].append, lambda what, seconds: told[name].append(f"{what} {seconds >= 0}")):
            with step(f"compile {name}.cu"):
                together.wait()  # both steps are open
                remark(f"remark of {name}")
                note(f"note of {name}")
                together.wait()
            together.wait()

    threads = [Thread(target=run, args=(name,)) for name in told]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for name, texts in told.items():
        assert texts == [f"note of {name}", f"compile {name}.cu, remark of {name} True"]


def test_a_remark_is_of_the_innermost_step_and_a_step_that_fails_is_not_told() -> None:
    told: list[str] = []
    with listening(told.append, lambda what, _: told.append(what)):
        with step("outer"):
            with pytest.raises(ValueError, match="no"), step("inner"):
                remark("lost")
                raise ValueError("no")
            remark("kept")
        remark("of no step")
    note("of nobody")
    assert told == ["outer, kept"]

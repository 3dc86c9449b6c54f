"""Are names that want to be run shown as what they are: a kernel's, its file's, its PTX's, its GPU's?"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from browser_reports import WORSE
from visits import Visit, data_of

pytestmark = pytest.mark.browser


def test_hostile_names_are_shown_as_texts(visit: Callable[..., Visit]) -> None:
    opened = visit("hostile")
    assert opened.page.text_content("h1") == f"kernel {WORSE} on gpu {WORSE}"
    assert WORSE in opened.page.locator("#overview .headline").text_content()
    # a title's text is shown with its spaces put together, which these names have none of
    assert opened.ask("document.title") == f"kernel {WORSE} on gpu {WORSE}"


def test_hostile_names_make_no_elements_and_run_nothing(visit: Callable[..., Visit]) -> None:
    opened = visit("hostile", "#overview&component=%3Cimg%20src%3Dx%20onerror%3Ddocument.broken%3D1%3E")
    for name in opened.sections:
        opened.page.click(f"#tab-{name}")
        for hook in opened.page.locator(f"#{name} [data-hook]").all()[:20]:
            hook.dispatch_event("pointerenter")  # some parts are too narrow to be pointed at
    found = opened.ask("""({
        scripts: document.scripts.length, pictures: document.querySelectorAll("img, iframe, object, embed").length,
        addresses: Array.from(document.querySelectorAll("[href], [src]")).map((each) => each.getAttribute("href") || "")
          .filter((each) => !each.startsWith("#") && each !== "data:,"),
        handlers: Array.from(document.querySelectorAll("*")).filter((each) =>
          Array.from(each.attributes).some((attribute) => attribute.name.startsWith("on"))).length,
        broken: document.broken === undefined ? "no" : "yes",
    })""")
    assert found == {"scripts": 2, "pictures": 0, "addresses": [], "handlers": 0, "broken": "no"}


def test_hostile_names_are_whole_in_the_data(report: Callable[[str], Path]) -> None:
    document = data_of(report("hostile"))  # no text in it ends the script element before its end
    assert document["predictions"][0]["kernel"] == f"kernel {WORSE}"
    assert document["predictions"][0]["gpu"] == f"gpu {WORSE}"

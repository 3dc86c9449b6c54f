"""A document (a dossier of `explore/dossier`) as one HTML file: sections of its kind, drawn, styled and scripted in place."""

from __future__ import annotations

import base64
import hashlib
import json
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from warpsight.report.html.embedded import embedded
from warpsight.report.html.sections import Section, sections_of
from warpsight.report.json_text import plain

if TYPE_CHECKING:
    from jinja2 import Environment

_STYLES = ("base.css", "layout.css", "parts.css")
_SCRIPTS = ("core.js", "tabs.js", "keys.js")


def page(document: dict[str, Any]) -> str:
    """The HTML of `document`. The same document always gives the same text; every text in it is shown as it is, never run.

    Raises KeyError or ValueError for what is no dossier or has NaN for a number: dossiers are checked where they are made.
    """
    content = plain(document)
    shown = [(section, section.context(content)) for section in sections_of(content["kind"])]
    present = [(section, context) for section, context in shown if context is not None]
    style = "\n".join(_asset(name) for name in (*_STYLES, *_extra(present, "styles")))
    script = _bundle((*_SCRIPTS, *_extra(present, "scripts")))
    bodies = [{"section": section, "html": _render(section.template, **context)} for section, context in present]
    return _render(
        "page.jinja",
        document=content,
        sections=bodies,
        style=style,
        script=script,
        policy=f"default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src 'sha256-{_digest(script)}'; "
        "base-uri 'none'; form-action 'none'",
        data=_data(embedded(content)),
    )


def _extra(present: list[tuple[Section, dict[str, Any]]], kind: str) -> list[str]:
    """The assets that the sections ask for, each once, in order."""
    return list(dict.fromkeys(name for section, _ in present for name in getattr(section, kind)))


def _bundle(names: tuple[str, ...]) -> str:
    """Scripts as one, in a scope of its own. `W` is what they share."""
    parts = "\n".join(_asset(name).strip() for name in names)
    return f'(() => {{\n"use strict";\nconst W = {{}};\n{parts}\nW.start();\n}})();'


def _digest(text: str) -> str:
    """What a browser compares with the policy, so that it runs this script and no other."""
    return base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode()


def _data(content: Any) -> str:
    """The document as JSON inside a script element: `<` is written as an escape, so that no text can end it."""
    text = json.dumps(content, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


@cache
def _asset(name: str) -> str:
    return files("warpsight.report.html").joinpath("assets", name).read_text("utf-8")


@cache
def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    from warpsight.report.html.words import FILTERS

    environment = Environment(
        loader=PackageLoader("warpsight.report.html"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(FILTERS)
    return environment


def _render(template: str, **context: Any) -> Markup:
    """The template's text, marked as HTML that is already escaped."""
    return Markup(_environment().get_template(template).render(**context))

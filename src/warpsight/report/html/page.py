"""A document (a dossier of `explore/dossier`) as one HTML file: sections of its kind, drawn, styled and scripted in place."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from warpsight.base.errors import FormatError
from warpsight.explore.dossier.results import DAMAGE
from warpsight.report.html.embedded import embedded
from warpsight.report.html.sections import Section, sections_of
from warpsight.report.html.stack_bars import paints
from warpsight.report.json_text import plain

if TYPE_CHECKING:
    from jinja2 import Environment

SELF = "'self'"
_STYLES = ("base.css", "layout.css", "parts.css")
_SCRIPTS = ("core.js", "tabs.js", "keys.js")


def checked_page(document: dict[str, Any], place: str, *, live: bool = False) -> str:
    """The page of a document that was read from the file `place`: raises FormatError where it is no dossier."""
    from jinja2 import TemplateError

    try:
        return page(document, live=live)
    except (TemplateError, *DAMAGE) as error:
        what = f"is no document that a report can be made of ({type(error).__name__}: {error})"
        raise FormatError(what, place=place, remedy="make it again with `warpsight report --json` of this version") from error


def page(document: dict[str, Any], *, live: bool = False) -> str:
    """The HTML of `document`. The same document always gives the same text; every text in it is shown as it is, never run.

    `live` is for a server (`serving.py`): the page asks it whether the result has changed, and shows itself again then.
    Raises KeyError or ValueError for what is no dossier or has NaN for a number: dossiers are checked where they are made.
    """
    content = plain(document)
    shown = [(section, section.context(content)) for section in sections_of(content["kind"])]
    present = [(section, context) for section, context in shown if context is not None]
    style = "\n".join([*(_asset(name) for name in (*_STYLES, *_extra(present, "styles"))), paints()])
    script = _bundle((*_SCRIPTS, *_extra(present, "scripts"), *(["live.js"] if live else [])))
    bodies = [{"section": section, "html": render(section.template, **context)} for section, context in present]
    whole = render(
        "page.jinja",
        document=content,
        sections=bodies,
        style=style,
        script=script,
        policy=f"default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src 'sha256-{_digest(script)}'; "
        f"base-uri 'none'; form-action 'none'{'; connect-src ' + SELF if live else ''}",
        data=_data(embedded(content)),
    )
    # plain text, so that what is put beside it is not escaped; a file's name that is no text keeps the rest from no one
    return str(whole).encode("utf-8", "replace").decode("utf-8")


def list_page(folder: str, items: Sequence[Any]) -> str:
    """The page that lists results: each with `ident`, `name` and `kind`."""
    return render("list.jinja", folder=folder, items=items, style="\n".join(_asset(name) for name in _STYLES))


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


def render(template: str, **context: Any) -> Markup:
    """The text of a template of ours, marked as HTML that is already escaped. What `context` holds is escaped."""
    return Markup(_environment().get_template(template).render(**context))

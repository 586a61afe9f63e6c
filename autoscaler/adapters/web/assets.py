"""The page's parts as text, put together into one self-contained document.

The chart library is uPlot 1.6.32 (MIT), kept unchanged under `vendor` with its licence.
"""

from functools import cache
from importlib.resources import files

_PARTS = {
    "uplot.css": "vendor/uPlot.min.css",
    "uplot.js": "vendor/uPlot.iife.min.js",
    "uplot.licence": "vendor/uPlot.LICENSE.txt",
    "base.css": "base.css",
    "batch.css": "batch.css",
    "batch.js": "batch.js",
    "beside.css": "beside.css",
    "beside.js": "beside.js",
    "charts.js": "charts.js",
    "overview.css": "overview.css",
    "overview.js": "overview.js",
    "page.css": "page.css",
    "page.js": "page.js",
    "panels.js": "panels.js",
    "pools.css": "pools.css",
    "pools.js": "pools.js",
    "page.html": "page.html",
    "preflight.css": "preflight.css",
    "preflight.js": "preflight.js",
    "past.css": "past.css",
    "past.js": "past.js",
    "report.css": "report.css",
    "report.js": "report.js",
    "report.html": "report.html",
    "standalone.html": "standalone.html",
}


@cache
def part(name: str) -> str:
    """The text of one part; KeyError for a name that is not one."""
    text = files(__package__).joinpath(_PARTS[name]).read_text(encoding="utf-8")
    return text.strip()


def assemble(document: str, values: dict[str, str] | None = None) -> str:
    """The document with every `{{name}}` replaced by that part, or by the value given under that name.

    Values are put in last and once: text that comes from outside is never searched for names.
    """
    given = values or {}
    pieces = part(document).split("{{")
    out = [pieces[0]]
    for piece in pieces[1:]:
        name, found, rest = piece.partition("}}")
        if not found:
            raise ValueError(f"{document}: a name in braces is not closed: {name[:40]!r}")
        out += [given[name] if name in given else part(name), rest]
    return "".join(out)


@cache
def _page_pieces() -> tuple[str, ...]:
    return tuple(assemble("page.html", {"nonce": "\0"}).split("\0"))


def page(nonce: str) -> str:
    """The live page as one response; `nonce` is the token that its content security policy admits."""
    return nonce.join(_page_pieces())

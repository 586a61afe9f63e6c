"""Reports as one HTML file that needs nothing else: styles, charts and their data inside, no request to anybody.

Enters: words, markup that is escaped already, and the data that the kind's own script draws. Leaves: the page as text.
Titles, facts and notes are escaped here, so that no report has to remember it.
"""

from collections.abc import Iterable, Mapping
from html import escape

import msgspec

from autoscaler.adapters.web.assets import assemble, part


def standalone(
    *, kind: str, title: str, facts: Mapping[str, str], body: str, content: object, script: str, style: str = "",
    command: str = "", notes: Iterable[str] = (),
) -> str:  # fmt: skip
    """The page; `script` and `style` are parts of its kind's own, `command` is what makes it again."""
    rows = "".join(f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>" for name, value in facts.items())
    typed = " ".join(f"<span>{escape(word)}</span>" for word in command.split(" "))
    told = "".join(f"<p>{escape(note)}</p>" for note in notes)
    return assemble(
        "standalone.html",
        {
            "kind": escape(kind),
            "title": escape(title),
            "facts": f'<dl class="facts">{rows}</dl>' + (f"<p><code>{typed}</code></p>" if command else ""),
            "body": body,
            "notes": f'<div class="notes">{told}</div>' if told else "",
            "content": msgspec.json.encode(content).decode().replace("<", "\\u003c"),
            "own.css": part(style) if style else "",
            "own.js": part(script),
        },
    )

"""Parts of the report that unfold: tables of answers, and the WarmPools and BatchQueues to begin with.

Enters: answers. Leaves: markup; all text from outside is escaped.
"""

from collections.abc import Sequence
from html import escape

from autoscaler.preflight.answers import Answer, CannotTell
from autoscaler.preflight.batch_queues import drafts
from autoscaler.preflight.growth import Pools
from autoscaler.preflight.job_study import Queues
from autoscaler.preflight.job_words import none_text, spoken, untold_text
from autoscaler.preflight.phrases import said
from autoscaler.preflight.warm_pools import documents


def warm_section(found: Pools) -> str:
    """What growth asks to keep warm, and the pools to begin with; empty where no pool can be told of."""
    rows: list[tuple[str, Answer]] = []
    for pool in found.pools:
        name = f"{pool.shape or 'GPUs'}, {pool.gpus} each"
        rows += [(f"{name}: calmest hour", pool.quiet), (f"{name}: hour that grows most", pool.busy)]
        rows.append((f"{name}: largest of all", pool.most))
    if not rows:
        return ""
    table = answer_table("How much demand grows within one cold start", rows)
    drafts = escape("---\n".join(documents(found)))
    return (
        f'<section aria-labelledby="warm"><h2 id="warm">What to keep warm</h2>{table}'
        f"<details><summary>The WarmPools to begin with</summary><pre>{drafts}</pre></details></section>"
    )


def batch_section(found: Queues | None) -> str:
    """What Jobs use of GPUs, and the queues to begin with; empty where none was asked of Jobs."""
    if found is None:
        return ""
    title = '<section aria-labelledby="batch"><h2 id="batch">Batch work</h2>'
    if found.untold is not None or not found.queues:
        text = none_text(found) if found.untold is None else untold_text(found.untold)
        return f'{title}<p class="hint">{escape(text)}</p></section>'
    parts = []
    for study in found.queues:
        items = "".join(
            f'<li class="{"told" if origin else "untold"}"><p>{escape(text)}</p><small>{escape(origin)}</small></li>'
            for text, origin in spoken(study)
        )
        parts.append(f'<h3>Namespace {escape(study.namespace)}</h3><ol class="answers">{items}</ol>')
    yaml = escape("---\n".join(drafts(found)))
    draft = f"<details><summary>The BatchQueues to begin with</summary><pre>{yaml}</pre></details>"
    return f"{title}{''.join(parts)}{draft}</section>"


def answer_table(title: str, rows: Sequence[tuple[str, Answer]]) -> str:
    """Named answers with their origin, folded under a title."""
    lines = []
    for name, found in rows:
        if isinstance(found, CannotTell):
            value, origin, kind = "cannot tell", f"{found.text}. Needed: {found.needed}", ' class="untold"'
        else:
            value, origin, kind = said(found), found.how, ""
        lines.append(
            f'<tr{kind}><th scope="row">{escape(name)}</th><td>{escape(value)}</td><td>{escape(origin)}</td></tr>'
        )
    return f'<details><summary>{escape(title)}</summary><table class="told">{"".join(lines)}</table></details>'

"""The tables of `loadtests warm` in Markdown: what a result says, line by line.

Enters: one case's result as it stands in the JSON. Leaves: lines.
"""

from collections.abc import Iterator, Mapping
from typing import Any

Row = Mapping[str, Any]


def tables(result: Row) -> Iterator[str]:
    """All tables of one case, each with its title."""
    yield f"### {result['case']}, {result['counted_h']:g} h"
    yield from _pools(result)
    yield from _foreseen(result)
    yield from _depths(result)
    yield from _hours(result)


def _pools(result: Row) -> Iterator[str]:
    ours, static = result["ours"], result["static"]
    yield from ("", "| pool | hits | idle-warm h | ours has fewer |", "|---|---|---|---|")
    yield f"| ours | {ours['hit_ratio']:.1%} | {ours['idle_warm_h']:.0f} | |"
    for name, each in static.items():
        fewer, words = each["ours_has_fewer_idle_ratio"], name.replace("_", " ")
        told = "–" if fewer is None else f"{fewer:.0%}"
        yield f"| static {words}: {each['size']} slots | {each['hit_ratio']:.1%} | {each['idle_warm_h']:.0f} | {told} |"
    for name, each in result["known_in_hindsight"].items():
        told = "–" if each is None else f"{each['hit_ratio']:.1%} | {each['idle_warm_h']:.0f}"
        yield f"| knows {name.replace('_', ' ')} | {told} | |"


def _foreseen(result: Row) -> Iterator[str]:
    yield from ("", "| parts | tuned on these days: idle-warm h | fewer than static | tuned on the others | fewer |")
    yield "|---|---|---|---|---|"
    for row in result["foreseen"]:
        cells = [_plan(row[name]) for name in ("tuned_on_these", "tuned_on_others")]
        yield f"| {row['parts']} | {' | '.join(cells)} |"


def _plan(plan: Row | None) -> str:
    if plan is None:
        return "no plan hits so often | –"
    fewer = plan["fewer_idle_ratio"]
    return f"{plan['idle_warm_h']:.0f} at {plan['hit_ratio']:.1%} | {'–' if fewer is None else f'{fewer:.0%}'}"


def _depths(result: Row) -> Iterator[str]:
    yield from ("", "| slot | idle-warm h | rises that needed it |", "|---|---|---|")
    for row in result["stood_for"]["by_depth"]:
        yield f"| {row['slot']} | {row['idle_warm_h']:.0f} | {row['rises']} |"


def _hours(result: Row) -> Iterator[str]:
    yield from ("", "| hour (UTC) | slots idle | idle-warm h | rises | the largest | as large as what stood |")
    yield "|---|---|---|---|---|---|"
    for row in result["stood_for"]["by_hour"]:
        told = (row["rises"], row["largest"], row["as_large"])
        yield f"| {row['hour']} | {row['kept']:.1f} | {row['idle_warm_h']:.0f} | {' | '.join(map(str, told))} |"

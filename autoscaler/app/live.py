"""The entry of the live controller: settings in, one replica run until a signal or the loss of the lead."""

import asyncio
import signal

from autoscaler.adapters.web.door import Door, Verdict
from autoscaler.adapters.web.hosts import Hosts
from autoscaler.adapters.web.live import Place, serving_live
from autoscaler.adapters.web.tls import Greeting
from autoscaler.app import garbage, log
from autoscaler.app.outside import Outside, connected, http_tls
from autoscaler.app.replica import LOG, Live
from autoscaler.settings.model import Settings


async def run(settings: Settings) -> int:
    """Run until a signal or the loss of the lead; the exit code. Raises InputError for settings that cannot be used."""
    log.set_up(settings.log_level, settings.log_format)
    for words in settings.warnings():
        LOG.warning(words)
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    async with connected(settings) as outside, garbage.rarely(outside.clock):
        live = Live(settings, outside)
        place = _place(settings, outside)
        facts = live.facts(place.greeting)
        telling = log.readiness(outside.clock, facts.not_ready)
        async with live.keda.serving(), serving_live(facts, live.hub, place), telling:
            return await live.run(stop)


def _place(settings: Settings, outside: Outside) -> Place:
    """Where answers are given, and to whom. Raises InputError for files that cannot be used."""
    http, tls, reviews = settings.http, http_tls(settings), outside.reviews
    door = None
    if reviews is not None:

        async def review(token: str, path: str) -> Verdict:
            user = await reviews.whose(token)
            return Verdict(None) if user is None else Verdict(user.username, await reviews.may_get(user, path))

        door = Door(review, outside.clock, f"{settings.namespace}/{http.reader}")
    hosts = Hosts(settings.namespace, http.allowed_hosts)
    return Place(http.host, http.port, hosts, None if tls is None else Greeting(tls), door)

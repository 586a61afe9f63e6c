"""The entry of the live controller: settings in, one replica run until a signal or the loss of the lead."""

import asyncio
import signal

from autoscaler.adapters.web.hosts import Hosts
from autoscaler.adapters.web.live import serving_live
from autoscaler.app import garbage
from autoscaler.app.outside import connected
from autoscaler.app.replica import LOG, Live
from autoscaler.settings.model import Settings


async def run(settings: Settings) -> int:
    """Run until a signal or the loss of the lead; the exit code. Raises InputError for settings that cannot be used."""
    for words in settings.warnings():
        LOG.warning(words)
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    async with connected(settings) as outside, garbage.rarely(outside.clock):
        live, http = Live(settings, outside), settings.http
        hosts = Hosts(settings.namespace, http.allowed_hosts)
        async with live.keda.serving(), serving_live(live.facts(), live.hub, hosts, http.host, http.port):
            return await live.run(stop)

"""A page of somebody else's vLLM-compatible server, read with our profile of vLLM."""

import subprocess
from collections.abc import Iterator
from urllib.request import ProxyHandler, build_opener

import pytest

from autoscaler.adapters.engines.catalogue import PROFILES
from autoscaler.adapters.engines.facts import PageReader
from autoscaler.adapters.engines.profiles import Fact
from tests.cluster.processes import free_port, wait_for
from tests.real import parts

pytestmark = [pytest.mark.real, pytest.mark.needs("llm-d-inference-sim"), pytest.mark.timeout(60)]


@pytest.fixture
def address() -> Iterator[str]:
    """Where the server's page is."""
    port = free_port()
    program = parts.program(parts.LLM_D)
    assert program is not None
    command = [str(program), "--model", "m", "--port", str(port)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        try:
            yield f"http://127.0.0.1:{port}/metrics"
        finally:
            server.terminate()


def test_the_profile_of_vllm_finds_its_facts_on_the_page_of_another_server(address: str) -> None:
    opener = build_opener(ProxyHandler({}))

    def page() -> bytes:
        try:
            with opener.open(address, timeout=1) as answer:
                return bytes(answer.read())
        except OSError:
            return b""

    wait_for(page, 20, "the server's page")
    facts = PageReader(PROFILES["vllm"]).facts(page(), ())
    assert {Fact.WAITING, Fact.RUNNING, Fact.KV_USED} <= facts.values.keys()

"""Requests to the API server are counted by method and by what came, for the controller's own metrics."""

import pytest

from autoscaler.adapters.kube.answers import KubeError
from tests.kube.apis import Apis, Ill, serving

PATH = "/api/v1/namespaces/prod/configmaps/a"


async def test_every_request_that_ends_is_counted_by_what_came() -> None:
    server = Apis()
    server.put(PATH, {"metadata": {"name": "a"}})
    async with serving(server) as api:
        await api.request("GET", PATH)
        await api.request("GET", PATH)
        server.ills = [Ill.TOO_MANY, Ill.HTML_500, Ill.FORBIDDEN, Ill.HANG]
        for within_s in (20.0, 20.0, 20.0, 0.3):
            with pytest.raises(KubeError):
                await api.request("GET", PATH, timeout_s=within_s)
        with pytest.raises(KubeError):
            await api.request("GET", f"{PATH}-none")
        with pytest.raises(KubeError):
            await api.request("PATCH", "/not/../a/path")
        assert api.answers == {
            ("GET", "2xx"): 2, ("GET", "429"): 1, ("GET", "5xx"): 1, ("GET", "4xx"): 1,
            ("GET", "404"): 1, ("GET", "timeout"): 1, ("PATCH", "invalid"): 1,
        }  # fmt: skip

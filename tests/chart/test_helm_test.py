"""What `helm test` runs in a pod: right after an installation it waits for images rather than fail."""

import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Final

import pytest

from tests.chart.rendering import only, render
from tests.cluster.processes import free_port

ANSWERS: Final = {
    "/healthz": '{"live": true}',
    "/api/status": '{"replica": {"holder": "headroom-0"}}',
    "/metrics": "headroom_build_info 1",
}


class Controller(BaseHTTPRequestHandler):
    """Answers as a controller does that leads."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(ANSWERS[self.path].encode())

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.mark.slow
def test_it_waits_for_a_controller_that_is_not_there_yet() -> None:
    (container,) = only(render(), "Pod")["spec"]["containers"]
    port = free_port()
    command = [sys.executable, "-c", container["args"][0], f"http://127.0.0.1:{port}"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as test:
        assert test.stdout is not None
        assert test.stdout.readline().startswith("not yet: ")
        with HTTPServer(("127.0.0.1", port), Controller) as server:
            threading.Thread(target=server.serve_forever, daemon=True).start()
            said = test.stdout.read()
            server.shutdown()
    assert test.returncode == 0
    assert said.endswith(f"answers at http://127.0.0.1:{port}\n")

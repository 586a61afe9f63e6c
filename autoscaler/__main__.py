"""`python -m autoscaler` is the `headroom` command."""

from autoscaler.cli.main import app

if __name__ == "__main__":
    app(prog_name="headroom")

"""`python -m autoscaler` is the `headroom` command."""

from autoscaler.cli.start import start

if __name__ == "__main__":
    start("headroom")

"""`loadtests compare SCENARIO`: ways of scaling side by side; see `loadtests.run`."""

from loadtests.run.command import main as run


def main(arguments: list[str]) -> int:
    """Run the scenario once for each way of scaling."""
    return run(arguments, name="compare")

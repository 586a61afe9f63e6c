"""The fitting child: a process of its own that reads requests from standard input and writes models to standard output.

Started by `fit_process`; it ends when its input does, so it never outlives the process that started it.
"""

import os
import sys

NICENESS = 10
"""Fits wait for everything else; a model has a minute until it is due."""


def main() -> None:
    """Answer requests until the input ends."""
    # Native thread pools read these when numpy and scikit-learn are first imported, which is below.
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.putenv(name, "1")
    os.nice(NICENESS)
    from autoscaler.fitting.fit import fit  # noqa: PLC0415 - after the thread limits
    from autoscaler.runtime import fit_wire  # noqa: PLC0415 - the same

    while (body := fit_wire.read_frame(sys.stdin.buffer)) is not None:
        request = fit_wire.unpack_request(body)
        try:
            answer = fit_wire.pack_answer(fit(request))
        except ValueError as error:
            answer = fit_wire.pack_answer(str(error))
        sys.stdout.buffer.write(fit_wire.framed(answer))
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()

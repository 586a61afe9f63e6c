"""Draws arrival instants from a published rate and burstiness.

Enters: one client's rate and coefficient of variation per window, and a random stream. Leaves: its instants. It knows
no file and no model.
"""

import hashlib

import numpy as np

from autoscaler.sim.traffic import FloatArray

CV_RANGE = (0.3, 8.0)
"""Published cvs are clipped to this: below, fits of a few requests look like clockwork; above, one gap sets the fit."""


def client_stream(seed: int, client: str, start_s: float) -> np.random.Generator:
    """The random stream of one client from `start_s` on: depends on nothing else in the selection, not on order."""
    digest = hashlib.sha256(client.encode()).digest()
    words = [int.from_bytes(digest[at : at + 4], "big") for at in (0, 4, 8, 12)]
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed, spawn_key=(*words, int(start_s)))))


def renewal_arrivals(
    rates_rps: FloatArray, cvs: FloatArray, *, window_s: float, stream: np.random.Generator
) -> FloatArray:
    """Ascending instants in [0, windows*window_s) of one client's arrivals; rates and cvs have shape (windows,).

    A renewal process in operational time: intervals are Gamma with mean 1 and shape 1/cv² of the window they begin
    in, and operational time runs at the client's rate, standing still where that is 0. An interval open at the end of
    a window goes on in the next, so that nothing is stretched to meet a count. The first interval is the stationary
    residual, U·Gamma(1/cv²+1) (Cox, Renewal Theory, 1962, section 5.1), which makes the expected count equal to the
    integral of the rate from the first second on.
    """
    shapes = 1.0 / np.clip(cvs, *CV_RANGE) ** 2
    pieces: list[FloatArray] = []
    residual: float | None = None
    for index in np.flatnonzero(rates_rps > 0):
        rate, shape = float(rates_rps[index]), float(shapes[index])
        if residual is None:
            residual = float(stream.random() * stream.standard_gamma(shape + 1.0) / shape)
        ages, residual = _within_window(rate * window_s, shape, residual, stream)
        if ages.size:
            end_s = (index + 1) * window_s
            # Rounding may lift the last instant onto the window's edge, where it would belong to the next bin.
            pieces.append(np.minimum(index * window_s + ages / rate, np.nextafter(end_s, 0.0)))
    return np.concatenate(pieces) if pieces else np.empty(0)


def renewal_at_one_cv(rates_rps: FloatArray, cv: float, *, window_s: float, stream: np.random.Generator) -> FloatArray:
    """The same process for a client whose burstiness never changes: fast for many short windows.

    With one cv the intervals do not depend on the windows, so they are drawn in operational time at once and mapped
    back through the integral of the rate, shape (windows,), of which at least one must be positive.
    """
    shape = float(1.0 / np.clip(cv, *CV_RANGE) ** 2)
    integral = np.concatenate(([0.0], np.cumsum(rates_rps * window_s)))
    residual = float(stream.random() * stream.standard_gamma(shape + 1.0) / shape)
    ages, _ = _within_window(float(integral[-1]), shape, residual, stream)
    edges_s = np.arange(integral.size) * window_s
    instants: FloatArray = np.minimum(np.interp(ages, integral, edges_s), np.nextafter(edges_s[-1], 0.0))
    return instants


def _within_window(span: float, shape: float, residual: float, stream: np.random.Generator) -> tuple[FloatArray, float]:
    """Arrivals in operational [0, span) when the open interval ends at `residual`, and what is left of the last."""
    if residual >= span:
        return np.empty(0), residual - span
    pieces = [np.array([residual])]
    position = residual
    while True:
        expected = span - position
        # Four standard deviations more than expected: one draw is nearly always enough.
        count = int(expected + 4.0 * np.sqrt(expected / shape)) + 8
        ends = position + np.cumsum(stream.standard_gamma(shape, count)) / shape
        inside = int(np.searchsorted(ends, span, side="left"))
        pieces.append(ends[:inside])
        if inside < count:
            return np.concatenate(pieces), float(ends[inside]) - span
        position = float(ends[-1])

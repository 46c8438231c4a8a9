"""Charts as SVG text: points, lines, axes with round ticks."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Final

import numpy as np

from sr4mdl._typing import FloatArray

WIDTH: Final = 380
HEIGHT: Final = 300
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 16, 34, 48
_INK, _GRID, _POINT, _MARK = "#1f2933", "#e4e7eb", "#2563a8", "#d9480f"
MAX_POINTS: Final = 600
"""More points than this are thinned out evenly."""


@dataclass
class Chart:
    """One picture with two axes; add points and lines, then ask for the SVG."""

    title: str
    x_label: str
    y_label: str
    log_y: bool = False
    """Whether the vertical axis is logarithmic; all values must then be above 0."""
    _shapes: list[tuple[str, FloatArray, FloatArray, str]] = field(default_factory=list)

    def points(self, x: FloatArray, y: FloatArray, marked: bool = False) -> None:
        """Add points; values that are not finite are left out."""
        self._add("marks" if marked else "points", x, y)

    def line(self, x: FloatArray, y: FloatArray, marked: bool = False) -> None:
        """Add a line through the values in their order."""
        self._add("line", x, y, _MARK if marked else _POINT)

    def _add(self, kind: str, x: FloatArray, y: FloatArray, color: str = "") -> None:
        x, y = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
        shown = np.isfinite(x) & np.isfinite(y)
        if self.log_y:
            shown &= y > 0
        self._shapes.append((kind, x[shown], y[shown], color))

    def svg(self, x_offset: int = 0) -> str:
        """Return a ``<g>`` element of ``WIDTH`` by ``HEIGHT``.

        Parameters
        ----------
        x_offset : int, default=0
            How far to the right it stands.
        """
        x_all = np.concatenate([shape[1] for shape in self._shapes])
        y_all = np.concatenate([shape[2] for shape in self._shapes])
        if not len(x_all):
            x_all, y_all = np.array([0.0, 1.0]), np.array([1.0, 10.0])
        across = _Axis.around(x_all, _LEFT, WIDTH - _RIGHT)
        up = _Axis.around(y_all, HEIGHT - _BOTTOM, _TOP, self.log_y)
        parts = [f'<g transform="translate({x_offset} 0)" font-size="12">']
        parts.append(
            f'<text x="{_LEFT}" y="20" font-size="14" font-weight="600" '
            f'fill="{_INK}">{escape(self.title)}</text>'
        )
        parts += self._axes(across, up)
        for kind, x, y, color in self._shapes:
            places = list(zip(across.places(x), up.places(y), strict=True))
            if kind == "line":
                path = " ".join(f"{a:.1f},{b:.1f}" for a, b in places)
                parts.append(
                    f'<polyline points="{path}" fill="none" stroke="{color}" '
                    'stroke-width="1.6"/>'
                )
            else:
                parts += _dots(places, kind == "marks")
        parts.append("</g>")
        return "".join(parts)

    def _axes(self, across: "_Axis", up: "_Axis") -> list[str]:
        parts = []
        bottom = HEIGHT - _BOTTOM
        for value, label in across.ticks():
            x = across.place(value)
            parts.append(_segment(x, _TOP, x, bottom, _GRID))
            parts.append(_text(x, bottom + 16, label, "middle"))
        for value, label in up.ticks():
            y = up.place(value)
            parts.append(_segment(_LEFT, y, WIDTH - _RIGHT, y, _GRID))
            parts.append(_text(_LEFT - 6, y + 4, label, "end"))
        parts.append(_segment(_LEFT, bottom, WIDTH - _RIGHT, bottom, _INK))
        parts.append(_segment(_LEFT, _TOP, _LEFT, bottom, _INK))
        middle = (_LEFT + WIDTH - _RIGHT) / 2
        parts.append(_text(middle, HEIGHT - 10, _short(self.x_label), "middle"))
        height = (_TOP + bottom) / 2
        parts.append(
            f'<text transform="translate(14 {height:.1f}) rotate(-90)" '
            f'text-anchor="middle" fill="{_INK}">{escape(_short(self.y_label))}</text>'
        )
        return parts


@dataclass(frozen=True)
class _Axis:
    """Maps values to places on the page."""

    low: float
    high: float
    start: float
    end: float
    log: bool

    @classmethod
    def around(
        cls, values: FloatArray, start: float, end: float, log: bool = False
    ) -> "_Axis":
        if log:
            low, high = math.log10(values.min()), math.log10(values.max())
        else:
            low, high = float(values.min()), float(values.max())
        # Half the widths, so that the difference of huge numbers cannot overflow.
        margin = (high / 2 - low / 2) * 0.1
        if margin <= abs(high) * 1e-12:
            margin = max(abs(high) * 0.1, 0.5 if log or high == 0 else 1e-300)
        low, high = max(low - margin, -1e308), min(high + margin, 1e308)
        return cls(low, high, start, end, log)

    def place(self, value: float) -> float:
        return float(self.places(np.array([value]))[0])

    def places(self, values: FloatArray) -> FloatArray:
        if self.log:
            values = np.log10(values)
        span = self.high / 2 - self.low / 2
        share = (values / 2 - self.low / 2) / span
        return np.asarray(self.start + share * (self.end - self.start))

    def ticks(self) -> list[tuple[float, str]]:
        if self.log:
            whole = range(math.ceil(self.low), math.floor(self.high) + 1)
            every = max(1, math.ceil(len(whole) / 6))
            powers = [power for power in whole if power % every == 0]
            if len(powers) >= 2:
                return [(10.0**one, f"1e{one}") for one in powers if one > -300]
            # Less than two powers of ten: round numbers in between.
            low, high = 10.0**self.low, 10.0**self.high
            between = (
                factor * 10.0**power
                for power in range(math.floor(self.low), math.ceil(self.high) + 1)
                for factor in (1, 2, 3, 5)
            )
            return [(one, _label(one)) for one in between if low <= one <= high]
        span = self.high / 2 - self.low / 2
        raw = span / 2.5
        size = 10.0 ** math.floor(math.log10(raw))
        step = size * min((1, 2, 5, 10), key=lambda factor: abs(factor * size - raw))
        first = math.ceil(self.low / step)
        values = [step * (first + count) for count in range(12)]
        return [(one, _label(one)) for one in values if one <= self.high]


def _label(value: float) -> str:
    """Return a tick as text, short enough for the room beside the axis."""
    text = f"{value + 0.0:.6g}"
    if value == 0.0 or 0.01 <= abs(value) < 1e5 or len(text) <= 5:
        return text
    mantissa, _, exponent = f"{value:.5e}".partition("e")
    return f"{mantissa.rstrip('0').rstrip('.')}e{int(exponent)}"


def _dots(places: Sequence[tuple[float, float]], marked: bool) -> list[str]:
    radius, color, opacity = (6, _MARK, 1.0) if marked else (2.6, _POINT, 0.55)
    return [
        f'<circle cx="{a:.1f}" cy="{b:.1f}" r="{radius}" fill="{color}" '
        f'fill-opacity="{opacity}"/>'
        for a, b in places
    ]


def _segment(x1: float, y1: float, x2: float, y2: float, color: str) -> str:
    return (
        f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" '
        f'stroke="{color}"/>'
    )


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" '
        f'fill="{_INK}">{escape(text)}</text>'
    )


def _short(text: str, most: int = 40) -> str:
    return text if len(text) <= most else text[: most - 3] + "..."


def side_by_side(charts: Sequence[Chart]) -> str:
    """Return one SVG document with charts from left to right."""
    width = WIDTH * len(charts)
    body = "".join(chart.svg(place * WIDTH) for place, chart in enumerate(charts))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {HEIGHT}" '
        f'width="{width}" height="{HEIGHT}" role="img" '
        'font-family="system-ui, sans-serif">'
        f'<rect width="{width}" height="{HEIGHT}" fill="white"/>{body}</svg>'
    )


def thin_out(n_rows: int) -> "np.ndarray[tuple[int], np.dtype[np.int64]]":
    """Return at most ``MAX_POINTS`` row numbers, evenly spread."""
    if n_rows <= MAX_POINTS:
        return np.arange(n_rows)
    return np.arange(MAX_POINTS) * n_rows // MAX_POINTS

"""Reports and pictures: well-formed, self-contained, right."""

import re
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from sr4mdl import Dataset, SymbolicRegressor, parse
from sr4mdl.report.charts import MAX_POINTS, Chart, _label, side_by_side, thin_out
from sr4mdl.report.mathml import to_mathml

VOID = {"meta"}


class Checker(HTMLParser):
    """Fails on tags that do not close; remembers what a browser would load."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.loads: list[str] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in VOID:
            self.open.append(tag)
        self.loads += [
            str(value) for name, value in attrs if name in ("src", "href", "srcset")
        ]

    def handle_startendtag(self, tag: str, attrs: object) -> None:
        pass

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def check_page(page: str) -> str:
    checker = Checker()
    checker.feed(page)
    checker.close()
    assert checker.open == []
    assert checker.loads == []
    assert page.isascii()
    assert "nan" not in re.sub(r"<[^>]*title.*?>", "", page).lower().split('"')
    return " ".join(checker.text)


def fit(X: np.ndarray, y: np.ndarray) -> SymbolicRegressor:
    return SymbolicRegressor(mode="uniform", max_time=5.0, random_state=0).fit(X, y)


def table() -> tuple[np.ndarray, np.ndarray]:
    X = np.random.default_rng(0).uniform(1.0, 2.0, (50, 2))
    return X, X[:, 0] * X[:, 1]


def test_report_is_whole_and_loads_nothing() -> None:
    X, y = table()
    model = fit(X, y)
    page = model.report(X, y)
    text = check_page(page)
    assert "Formula of y" in text
    assert "x0*x1" in text
    assert page.count("<math ") == 1
    assert page.count('<tr class="best">') == 1
    # Each row as a point in two charts, the front beside it.
    assert page.count("<circle") == 2 * 50 + len(model.equations_) + 1


def test_report_of_several_targets() -> None:
    X, y = table()
    Y = np.column_stack([y, np.full(50, 3.0)])
    page = fit(X, Y).report(X, Y)
    check_page(page)
    assert page.count("<math ") == 2


def test_names_cannot_break_the_page() -> None:
    pandas = pytest.importorskip("pandas")
    X, y = table()
    frame = pandas.DataFrame(X, columns=["<script>alert(1)</script>", "a & b"])
    page = fit(frame, pandas.Series(y, name="</title>")).report(frame, y)
    check_page(page)
    assert "<script" not in page


def test_plot(tmp_path: Path) -> None:
    X, y = table()
    picture = fit(X, y).plot(X, y)
    root = ElementTree.fromstring(picture.svg)
    assert root.tag.endswith("svg")
    assert picture._repr_svg_() == picture.svg
    picture.save(tmp_path / "fit.svg")
    assert (tmp_path / "fit.svg").read_text() == picture.svg


def test_plot_of_a_dataset() -> None:
    X, y = table()
    data = Dataset.from_arrays(X, y, ["a", "b"])
    model = SymbolicRegressor(mode="uniform", max_time=5.0).fit_dataset(data)
    assert model.plot(data).svg.count("<circle") > 100
    assert "a*b" in model.report(data)
    with pytest.raises(ValueError, match="have the columns a, b"):
        model.plot(Dataset.from_arrays(X, y, ["b", "a"]))


def test_one_variable_shows_the_curve() -> None:
    X = np.linspace(1.0, 2.0, 30).reshape(-1, 1)
    svg = fit(X, np.sin(X[:, 0])).plot(X, np.sin(X[:, 0])).svg
    assert "Data and formula" in svg


@pytest.mark.parametrize("scale", [1e-290, 1e-12, 1.0, 1e12, 1e290])
def test_charts_of_any_scale_are_well_formed(scale: float) -> None:
    chart = Chart("t", "x", "y")
    values = np.array([0.5, 1.0, 3.0]) * scale
    chart.points(values, values)
    root = ElementTree.fromstring(side_by_side([chart]))
    places = [float(one.attrib["cx"]) for one in root.iter() if "cx" in one.attrib]
    assert places == sorted(places)
    assert 60 < places[0] < places[-1] < 380


def test_charts_of_equal_and_missing_values() -> None:
    for values in ([2.0, 2.0], [0.0, 0.0], [np.nan, np.inf], [1.0, np.nan]):
        chart = Chart("t", "x", "y", log_y=True)
        chart.points(np.array(values), np.array(values))
        assert "nan" not in side_by_side([chart])


def test_places_in_a_chart() -> None:
    chart = Chart("t", "x", "y")
    chart.points(np.array([0.0, 10.0]), np.array([0.0, 10.0]))
    svg = side_by_side([chart])
    (first, last) = re.findall(r'cx="([\d.]+)" cy="([\d.]+)"', svg)
    # From 64 to 364 across and 252 to 34 up, a margin of 0.5 on 10 at each end.
    assert first == (f"{64 + 300 * 0.5 / 11:.1f}", f"{252 - 218 * 0.5 / 11:.1f}")
    assert last == (f"{64 + 300 * 10.5 / 11:.1f}", f"{252 - 218 * 10.5 / 11:.1f}")


@pytest.mark.parametrize(
    ("value", "label"),
    [
        (0.0, "0"),
        (-0.0, "0"),
        (0.001, "0.001"),
        (-0.0006, "-6e-4"),
        (0.00125, "1.25e-3"),
        (0.05, "0.05"),
        (300.0, "300"),
        (20000.0, "20000"),
        (250000.0, "2.5e5"),
        (-1e-300, "-1e-300"),
    ],
)
def test_labels_of_ticks_are_short(value: float, label: str) -> None:
    assert _label(value) == label


def test_many_rows_are_thinned_out() -> None:
    assert thin_out(5).tolist() == [0, 1, 2, 3, 4]
    rows = thin_out(10 * MAX_POINTS)
    assert len(rows) == MAX_POINTS
    assert np.all(np.diff(rows) == 10)


def math_text(formula: str) -> str:
    """The formula as typeset, tags left out but fractions and powers marked."""
    markup = to_mathml(parse(formula))
    ElementTree.fromstring(re.sub(r"&#x[0-9A-F]+;", "u", markup))
    markup = markup.replace("<mfrac>", "[").replace("</mfrac>", "]")
    markup = markup.replace("<msup>", "{").replace("</msup>", "}")
    markup = re.sub("<mspace[^>]*/>", " ", markup)
    markup = markup.replace("&#x22C5;", "*").replace("&#x2212;", "-")
    return re.sub(r"<[^>]*>", "", markup.replace("&#x3C0;", "pi"))


@pytest.mark.parametrize(
    ("formula", "shown"),
    [
        ("a - (b - c)", "a-(b-c)"),
        ("(a + b)*c", "(a+b)*c"),
        ("a/(b + c)", "[ab+c]"),
        ("(a*b)^2", "{(a*b)2}"),
        ("-(a + b)", "-(a+b)"),
        ("1/a", "[1a]"),
        ("a^(b + 1)", "{ab+1}"),
        ("exp(-a)", "{e-a}"),
        ("sin(a)^2", "{sin(a)2}"),
        ("(-a)^2", "{(-a)2}"),
        ("a - -b", "a-(-b)"),
        ("a*-2", "a*(-2)"),
        ("a + (-b)*c", "a+(-b*c)"),
        ("a*(b/c)", "a*[bc]"),
        ("2*pi*x_1", "2 pi x1"),
        ("2*3*x", "2*3 x"),
        ("2*(3/x)", "2*[3x]"),
        ("x*2*y", "x*2 y"),
        ("x^2*y", "{x2}*y"),
        ("5/3/x", "[5/3x]"),
        ("5/3*x", "[53]*x"),
        ("x^(2/3)", "{x2/3}"),
        ("(a/b)^2", "{([ab])2}"),
        ("1.5e-20*a", "1.5*{10-20}*a"),
        ("abs(a)", "|a|"),
        ("sqrt(a + 1)", "a+1"),
        ("0.123456789*a", "0.123457 a"),
    ],
)
def test_typesetting(formula: str, shown: str) -> None:
    assert math_text(formula) == shown


def test_names_that_look_alike_are_written_letter_by_letter() -> None:
    markup = to_mathml(parse("x1 + x_1"), "x_2")
    assert "<mi>x1</mi><mo>+</mo><mi>x_1</mi>" in markup
    assert "<msub><mi>x</mi><mn>2</mn></msub><mo>=</mo>" in markup
    assert "<mi>pi</mi>" in to_mathml(parse("`pi`*a"))
    assert "<mi>exp</mi>" in to_mathml(parse("exp(a) + e"))


def test_greek_letters_and_targets() -> None:
    markup = to_mathml(parse("sigma + omega"), "alpha")
    assert re.findall(r"&#x(3[0-9A-F]+);", markup) == ["3B1", "3C3", "3C9"]
    assert "<mo>=</mo>" in markup

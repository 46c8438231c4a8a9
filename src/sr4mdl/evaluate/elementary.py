"""Elementary functions on vectors, as the compiled back end computes them.

Range reduction and polynomials made of fused multiply-adds and selections only, no
branches. Each function is within 2.5 units in the last place of the exact value and
follows C99 for NaN, infinities and zeros. Most come as a first step, which reduces
the argument, and a last step: ``kernels`` runs them as loops of their own, since a
processor overlaps many turns of a short loop but few of a long one.
"""

import math
from typing import Final

from sr4mdl.evaluate.vectors import (
    Vector,
    absolute,
    copysign,
    floor,
    fma,
    select,
    square_root,
)

TRIGONOMETRIC_LIMIT: Final = 1e12
"""Largest absolute argument for which sin, cos and tan here are accurate."""
EXP_LIMIT: Final = -708.0
"""Least argument of exp whose result is a normal number."""
WHOLE_EXP: Final = 1022
"""Bias of :func:`exp_reduce` for exp: the exponent field of 1/2."""
HALF_EXP: Final = 1021
"""Bias of :func:`exp_reduce` for exp / 2."""

_INFINITY: Final = math.inf
_NAN: Final = math.nan
_SMALLEST_NORMAL: Final = 2.2250738585072014e-308
_SIGN_BIT: Final = -0x8000000000000000
# Adding 1.5 * 2^52 to a number below 2^51 rounds it to a whole number, which then
# stands in the low bits: a conversion to integer that every vector unit can do.
_MAGIC: Final = 6755399441055744.0
# 2^52, and its bits: the same trick for small non-negative integers to float.
_TWO_52: Final = 4503599627370496.0
_TWO_52_BITS: Final = 0x4330000000000000

_LOG2_E: Final = 1.4426950408889634
# log(2) in two parts; the first has 21 trailing zero bits, so that k times it is exact.
_LN2_HIGH: Final = 0.6931471803691238
_LN2_LOW: Final = 1.9082149292705877e-10
# pi in three parts of 53 bits each; pi/2 is half of them.
_PI_1: Final = 3.141592653589793
_PI_2: Final = 1.2246467991473532e-16
_PI_3: Final = -2.9947698097183397e-33
_ONE_OVER_PI: Final = 0.3183098861837907
_THIRD: Final = 0.3333333333333333
_THIRD_LOW: Final = 1.850371707708594e-17


def exp_reduce(x: Vector, low: Vector | float, bias: int) -> tuple[Vector, Vector]:
    """First step of exp(x + low), low tiny: r, and n + bias in the low bits of magic.

    exp(x + low) = 2^n exp(r).
    """
    # Results overflow by themselves: up to n + bias = 2047, the exponent field of
    # infinity. Below -746 they round to 0.
    bound = (2047.2 - bias) / _LOG2_E
    x = select(x > bound, bound, x)
    x = select(x < -746.0, -746.0, x)
    offset = _MAGIC + bias
    magic = fma(x, _LOG2_E, offset)
    n = magic - offset
    r = fma(n, -_LN2_HIGH, x)
    return fma(n, -_LN2_LOW, r) + low, magic


def _twice_exp(r: Vector) -> Vector:
    """Return 2 exp(r) = 2 + 2 r + r^2 p(r) for abs(r) up to log(2)/2."""
    r2 = r * r
    r4 = r2 * r2
    a = fma(r, 0.33333333333333337, 1.0000000000000002)
    b = fma(r, 0.016666666666660123, 0.08333333333324826)
    c = fma(r, 0.00039682539726107235, 0.0027777777834427433)
    d = fma(r, 5.511453691999413e-06, 4.960304259190875e-05)
    e = fma(r, 5.020077099102064e-08, 5.524017689081949e-07)
    p = fma(r4, fma(r4, e, fma(r2, d, c)), fma(r2, b, a))
    return 2.0 + fma(r2, p, r + r)


def exp_result(r: Vector, magic: Vector) -> Vector:
    """Last step of exp for arguments above EXP_LIMIT."""
    return _twice_exp(r) * (magic.bits() << 52).as_float()


def exp_result_wide(r: Vector, magic: Vector) -> Vector:
    """Last step of exp for all arguments; equals :func:`exp_result` above its limit."""
    # 2^(n-1) may be no normal number: two factors.
    n = magic - (_MAGIC + WHOLE_EXP)
    half = fma(n, 0.5, _MAGIC)
    rest = (n - (half - _MAGIC)) + _MAGIC
    first = ((half.bits() + 1023) << 52).as_float()
    second = ((rest.bits() + 1022) << 52).as_float()
    return _twice_exp(r) * first * second


def sinh_result(x: Vector, half: Vector) -> Vector:
    """Last step of sinh, with ``half`` = exp(abs(x)) / 2."""
    size = absolute(x)
    large = half - 0.25 / half
    z = x * x
    w = z * z
    a = fma(z, 1.0 / 120.0, 1.0 / 6.0)
    b = fma(z, 1.0 / 362880.0, 1.0 / 5040.0)
    c = fma(z, 1.0 / 6227020800.0, 1.0 / 39916800.0)
    d = fma(z, 1.0 / 355687428096000.0, 1.0 / 1307674368000.0)
    p = fma(w * w, fma(w, d, c), fma(w, b, a))
    return copysign(select(size < 1.0, fma(size * z, p, size), large), x)


def cosh_result(r: Vector, magic: Vector) -> Vector:
    """Last step of cosh; r and magic belong to exp(abs(x)) / 2."""
    half = exp_result(r, magic)
    return half + 0.25 / half


def tanh_result(x: Vector, power: Vector) -> Vector:
    """Last step of tanh, with ``power`` = exp(2 abs(x))."""
    size = absolute(x)
    small = size < 0.625
    # Rational approximation of Cephes below 0.625, (e^2x - 1) / (e^2x + 1) above.
    z = x * x
    p = fma(z, -9.64399179425052238628e-1, -9.92877231001918586564e1)
    p = fma(z, p, -1.61468768441708447952e3)
    q = z + 1.12811678491632931402e2
    q = fma(z, q, 2.23548839060100448583e3)
    q = fma(z, q, 4.84406305325125486048e3)
    numerator = select(small, size * z * p, power - 1.0)
    quotient = numerator / select(small, q, power + 1.0)
    # Beyond 22 the result rounds to 1, and exp may be infinite.
    value = select(small, size, 0.0) + quotient
    return copysign(select(size > 22.0, 1.0, value), x)


def _split(x: Vector) -> tuple[Vector, Vector]:
    """Return k and m with x = 2^k m, m in [sqrt(1/2), sqrt(2)), for x > 0."""
    tiny = x < _SMALLEST_NORMAL
    scaled = select(tiny, x * 18014398509481984.0, x)
    offset = select(tiny, _TWO_52 + 1023.0 + 54.0, _TWO_52 + 1023.0)
    # Less the bits of sqrt(1/2), so that the exponent field steps there; plus those of
    # 1, so that it does not become negative.
    pattern = scaled.bits() + ((1023 << 52) - 0x3FE6A09E667F3BCD)
    k = ((pattern >> 52) | _TWO_52_BITS).as_float() - offset
    mantissa = ((pattern & 0x000FFFFFFFFFFFFF) + 0x3FE6A09E667F3BCD).as_float()
    return k, mantissa


def log_reduce(x: Vector) -> tuple[Vector, Vector, Vector]:
    """First step of log: k, f and s with x = 2^k (1 + f), s = f / (2 + f)."""
    k, mantissa = _split(x)
    f = mantissa - 1.0
    return k, f, f / (2.0 + f)


def log_result(x: Vector, k: Vector, f: Vector, s: Vector) -> Vector:
    """Last step of log: log(1 + f) = f - (f^2/2 - s (f^2/2 + R(s^2))), as fdlibm."""
    z = s * s
    w = z * z
    odd = fma(w, 1.531383769920937332e-01, 2.222219843214978396e-01)
    odd = fma(w, odd, 3.999999999940941908e-01)
    even = fma(w, 1.479819860511658591e-01, 1.818357216161805012e-01)
    even = fma(w, even, 2.857142874366239149e-01)
    even = fma(w, even, 6.666666666666735130e-01)
    half = 0.5 * f * f
    series = fma(w, odd, fma(z, even, half))
    result = fma(s, series, k * _LN2_LOW) - half + f
    result = fma(k, _LN2_HIGH, result)
    result = select(x < _INFINITY, result, x)
    result = select(x.equals(0.0), -_INFINITY, result)
    return select(x < 0.0, _NAN, result)


def angle_reduce(x: Vector, shift: float) -> tuple[Vector, Vector, Vector]:
    """First step of sin(x + shift pi): n in the low bits of magic, and r + low.

    x + shift pi = n pi + r + low, abs(r) up to pi/2. The shift is 0 or 1/2.
    """
    magic = fma(x, _ONE_OVER_PI, shift) + _MAGIC
    n = (magic - _MAGIC) - shift
    exact = fma(n, -_PI_1, x)
    r = fma(n, -_PI_2, exact)
    return magic, r, fma(n, -_PI_3, fma(n, -_PI_2, exact - r))


def sin_result(magic: Vector, r: Vector, low: Vector) -> Vector:
    """Last step of sin and cos: sin(r + low), negated for odd n."""
    z = r * r
    w = z * z
    a = fma(z, 0.008333333333333316, -0.16666666666666666)
    b = fma(z, 2.7557319219139183e-06, -0.00019841269841254885)
    c = fma(z, 1.6058977114074673e-10, -2.505210761393476e-08)
    d = fma(z, 2.731365867494017e-15, -7.643963965925357e-13)
    p = fma(w * w, fma(w, d, c), fma(w, b, a))
    # low times the cosine of r, for which a parabola is good enough.
    rest = fma(r * z, p, low * fma(z, -0.405, 1.0))
    return ((r + rest).bits() ^ (magic.bits() << 63)).as_float()


def quarter_reduce(x: Vector) -> tuple[Vector, Vector, Vector]:
    """First step of tan: as :func:`angle_reduce` with pi/2 in place of pi."""
    magic = fma(x, 2.0 * _ONE_OVER_PI, _MAGIC)
    n = magic - _MAGIC
    exact = fma(n, -0.5 * _PI_1, x)
    r = fma(n, -0.5 * _PI_2, exact)
    return magic, r, fma(n, -0.5 * _PI_3, fma(n, -0.5 * _PI_2, exact - r))


def tan_result(magic: Vector, r: Vector, low: Vector) -> Vector:
    """Last step of tan: sine over cosine, or minus cosine over sine for odd n."""
    # fdlibm's kernels for abs(r) up to pi/4.
    z = r * r
    w = z * z
    a = fma(z, -1.98412698298579493134e-04, 8.33333333332248946124e-03)
    b = fma(z, -2.50507602534068634195e-08, 2.75573137070700676789e-06)
    p = fma(w, fma(w, 1.58969099521155010221e-10, b), a)
    v = z * r
    sine = r - (fma(z, fma(v, -p, 0.5 * low), -low) + v * 1.66666666666666324348e-01)
    a = fma(z, -1.38888888888741095749e-03, 4.16666666666666019037e-02)
    b = fma(z, -2.75573143513906633035e-07, 2.48015872894767294178e-05)
    c = fma(z, -1.13596475577881948265e-11, 2.08757232129817482790e-09)
    p = fma(w, fma(w, c, b), a)
    half = 0.5 * z
    rough = 1.0 - half
    cosine = rough + (((1.0 - rough) - half) + fma(w, p, -r * low))
    odd = magic.bits().odd()
    return select(odd, -cosine, sine) / select(odd, sine, cosine)


def _arcsin_series(z: Vector) -> Vector:
    """Return (arcsin(s) - s) / s for z = s^2 up to 1/4 (fdlibm's approximation)."""
    w = z * z
    a = fma(z, -3.25565818622400915405e-01, 1.66666666666666657415e-01)
    b = fma(z, -4.00555345006794114027e-02, 2.01212532134862925881e-01)
    c = fma(z, 3.47933107596021167570e-05, 7.91534994289814532176e-04)
    p = fma(w, fma(w, c, b), a)
    a = fma(z, -2.40339491173441421878e00, 1.0)
    b = fma(z, -6.88283971605453293030e-01, 2.02094576023350569471e00)
    q = fma(w, fma(w, 7.70381505559019352791e-02, b), a)
    return z * p / q


def arcsin(x: Vector) -> Vector:
    """Return the angle in [-pi/2, pi/2] with this sine."""
    size = absolute(x)
    small = size < 0.5
    # Above 1/2: arcsin(x) = pi/2 - 2 arcsin(sqrt((1 - x) / 2)).
    z = select(small, x * x, fma(size, -0.5, 0.5))
    root = select(small, size, square_root(z))
    value = fma(root, _arcsin_series(z), root)
    large = 0.5 * _PI_1 - fma(2.0, value, -0.5 * _PI_2)
    return copysign(select(small, value, large), x)


def arccos(x: Vector) -> Vector:
    """Return the angle in [0, pi] with this cosine."""
    size = absolute(x)
    small = size < 0.5
    z = select(small, x * x, fma(size, -0.5, 0.5))
    root = square_root(z)
    series = _arcsin_series(z)
    middle = 0.5 * _PI_1 - (x - fma(-x, series, 0.5 * _PI_2))
    tail = root * series
    near_one = 2.0 * (root + tail)
    near_minus_one = 2.0 * (0.5 * _PI_1 - (root + (tail - 0.5 * _PI_2)))
    return select(small, middle, select(x > 0.0, near_one, near_minus_one))


def arctan_reduce(x: Vector) -> tuple[Vector, Vector]:
    """First step of arctan: arctan(abs(x)) = base + arctan(t), abs(t) up to 0.66."""
    size = absolute(x)
    steep = size > 2.41421356237309504880
    middle = size > 0.66
    numerator = select(steep, -1.0, select(middle, size - 1.0, size))
    denominator = select(steep, size, select(middle, size + 1.0, 1.0))
    base = select(steep, 0.5 * _PI_1, select(middle, 0.25 * _PI_1, 0.0))
    return base, numerator / denominator


def arctan_result(x: Vector, base: Vector, t: Vector) -> Vector:
    """Last step of arctan (Cephes' approximation)."""
    z = t * t
    w = z * z
    a = fma(z, -1.228866684490136173410e2, -6.485021904942025371773e1)
    b = fma(z, -1.615753718733365076637e1, -7.500855792314704667340e1)
    p = fma(w, fma(w, -8.750608600031904122785e-1, b), a)
    a = fma(z, 4.853903996359136964868e2, 1.945506571482613964425e2)
    b = fma(z, 1.650270098316988542046e2, 4.328810604912902668951e2)
    q = fma(w, fma(w, z + 2.485846490142306297962e1, b), a)
    tail = fma(base, _PI_2 / _PI_1, t * z * p / q)
    return copysign(base + (t + tail), x)


def power_ratio(x: Vector) -> tuple[Vector, Vector, Vector]:
    """First step of x^y: k, s and s_low with abs(x) = 2^k (1 + s) / (1 - s)."""
    size = absolute(x)
    k, mantissa = _split(size)
    # Zero and infinity get their logarithm from k, NaN stays NaN.
    k = select(size.equals(0.0), -_INFINITY, k)
    k = select(size < _INFINITY, k, size)
    f = mantissa - 1.0
    total = mantissa + 1.0
    total_low = mantissa - (total - 1.0)
    reciprocal = 1.0 / total
    s = f * reciprocal
    return k, s, reciprocal * fma(-s, total_low, fma(-s, total, f))


def power_logarithm(k: Vector, s: Vector, s_low: Vector) -> tuple[Vector, Vector]:
    """Second step of x^y: log(abs(x)) as a sum of two numbers."""
    # log(m) = 2 s + 2 s^3/3 + 2 s^5 q(s^2); the second term needs two parts as well.
    z = s * s
    w = z * z
    a = fma(z, 0.1428571428566928, 0.20000000000000012)
    b = fma(z, 0.09090904125803699, 0.11111111135538725)
    c = fma(z, 0.06642983636945307, 0.07692787250229415)
    q = fma(w, fma(w, fma(w, 0.06456748033401576, c), b), a)
    s2 = s + s
    cube = s2 * z
    cube_low = fma(s2, z, -cube) + s2 * fma(s, s, -z)
    third = cube * _THIRD
    third_low = fma(cube, _THIRD, -third) + fma(cube, _THIRD_LOW, cube_low * _THIRD)
    # What s lacks counts 1 + 3 z/3 + ... times: the derivative.
    rest = fma(cube * z, q, fma(s_low, fma(z, 2.0, 2.0), third_low))
    big = k * _LN2_HIGH
    high = big + s2
    # k = 0 leaves s2 as it is; otherwise abs(big) > abs(s2).
    low = fma(k, _LN2_LOW, s2 - (high - big))
    log_high = high + third
    return log_high, ((high - log_high) + third) + (low + rest)


def power_product(
    y: Vector, log_high: Vector, log_low: Vector
) -> tuple[Vector, Vector]:
    """Third step of x^y: y log(abs(x)) as a sum of two numbers."""
    product = y * log_high
    product_low = fma(y, log_low, fma(y, log_high, -product))
    # Outside, the result is 0, inf or NaN and the low part may be NaN.
    product_low = select(absolute(product) < 800.0, product_low, 0.0)
    product = select(log_high.equals(0.0), 0.0, product)
    return select(y.equals(0.0), 0.0, product), product_low


def power_sign(x: Vector, y: Vector, size: Vector) -> Vector:
    """Last step of x^y where some x are not positive: ``size`` = abs(x)^y signed."""
    half = 0.5 * y
    odd = (half - floor(half)).equals(0.5)
    value = (size.bits() | (x.bits() & _SIGN_BIT).keep(odd)).as_float()
    # -inf and -0.0 have powers with any exponent, other negative numbers do not.
    undefined = select(x > -_INFINITY, _NAN, value)
    return select(x < 0.0, select(floor(y).differs(y), undefined, value), value)

//! Functions of numbers.

use super::entry::{Entry, Output};
use crate::rounding::divisors::Divisors;
use crate::rounding::floor_ceil::{FloorCeil, Towards};
use crate::rounding::scales::{Digits, Scales};
use crate::rounding::sign::Sign;

pub(super) const ENTRIES: &[Entry] = &[
    Entry::datafusion("abs", Output::Small)
        .postgresql(&["abs"])
        .doc("The number without its sign.")
        .example("abs(-3)", "3"),
    Entry::scalar("signum", Output::Small, || Sign::default().into())
        .doc("The sign of a number: -1, 0 or 1.")
        .example("signum(-3)", "-1"),
    Entry::datafusion("round", Output::Small)
        .postgresql(&["round"])
        .doc("The number rounded to the nearest whole number, or to a count of decimal places.")
        .example("round(2.567, 2)", "2.57"),
    Entry::wrapping("floor", Output::Small, |inner| FloorCeil::new(inner, Towards::Below).into())
        .postgresql(&["floor"])
        .doc("The greatest whole number that is not above the number.")
        .example("floor(-1.5)", "-2"),
    Entry::wrapping("ceil", Output::Small, |inner| FloorCeil::new(inner, Towards::Above).into())
        .postgresql(&["ceil"])
        .doc("The least whole number that is not below the number.")
        .example("ceil(1.2)", "2"),
    Entry::wrapping("trunc", Output::Small, |inner| FloorCeil::new(inner, Towards::Zero).into())
        .postgresql(&["trunc"])
        .doc("The number without its fraction, or without the digits behind a count of decimal places.")
        .example("trunc(-1.9)", "-1"),
    Entry::scalar("gcd", Output::Small, || Divisors::gcd().into())
        .postgresql(&["gcd"])
        .overloads(&["gcd(integer, integer) -> integer", "gcd(bigint, bigint) -> bigint"])
        .doc("The greatest common divisor of two whole numbers.")
        .example("gcd(12, 18)", "6"),
    Entry::scalar("scale", Output::Small, || Scales::new(Digits::Scale).into())
        .postgresql(&["scale"])
        .overloads(&["scale(numeric) -> integer"])
        .doc("The digits behind the point: of a DECIMAL those of its type, of a NUMERIC those that are shown.")
        .example("scale(1.5::decimal(10, 2))", "2"),
    Entry::scalar("min_scale", Output::Small, || Scales::new(Digits::Least).into())
        .postgresql(&["min_scale"])
        .overloads(&["min_scale(numeric) -> integer"])
        .doc("The digits behind the point without zeros at the end.")
        .example("min_scale(1.5::decimal(10, 2))", "1"),
    Entry::scalar("trim_scale", Output::Small, || Scales::new(Digits::Trimmed).into())
        .postgresql(&["trim_scale"])
        .overloads(&["trim_scale(numeric) -> numeric"])
        .doc("The number without zeros at the end of its digits behind the point.")
        .example("trim_scale(1.5::decimal(10, 2))::text", "1.5"),
    Entry::scalar("lcm", Output::Small, || Divisors::lcm().into())
        .postgresql(&["lcm"])
        .overloads(&["lcm(integer, integer) -> integer", "lcm(bigint, bigint) -> bigint"])
        .doc("The least common multiple of two whole numbers.")
        .example("lcm(4, 6)", "12"),
    Entry::datafusion("factorial", Output::Small)
        .postgresql(&["factorial"])
        .doc("The product of all whole numbers from 1 to the number.")
        .example("factorial(5)", "120"),
    Entry::datafusion("power", Output::Small)
        .postgresql(&["power", "pow"])
        .doc("The first number raised to the power of the second.")
        .example("power(2, 10)", "1024"),
    Entry::datafusion("sqrt", Output::Small)
        .postgresql(&["sqrt"])
        .doc("The square root of a number.")
        .example("sqrt(16)", "4"),
    Entry::datafusion("cbrt", Output::Small)
        .postgresql(&["cbrt"])
        .doc("The cube root of a number.")
        .example("cbrt(8)", "2"),
    Entry::datafusion("exp", Output::Small)
        .postgresql(&["exp"])
        .doc("The number e raised to the power of a number.")
        .example("exp(1)", "2.718281828459045"),
    Entry::datafusion("ln", Output::Small)
        .postgresql(&["ln"])
        .doc("The natural logarithm of a number.")
        .example("ln(10)", "2.302585092994046"),
    Entry::datafusion("log", Output::Small)
        .postgresql(&["log"])
        .doc("The logarithm of a number to base 10, or of the second number to the base of the first.")
        .example("log(100)", "2"),
    Entry::datafusion("log10", Output::Small)
        .postgresql(&["log10"])
        .doc("The logarithm of a number to base 10.")
        .example("log10(100)", "2"),
    Entry::datafusion("log2", Output::Small).doc("The logarithm of a number to base 2.").example("log2(8)", "3"),
    Entry::datafusion("pi", Output::Small)
        .postgresql(&["pi"])
        .doc("The ratio of the circumference of a circle to its diameter.")
        .example("pi()", "3.141592653589793"),
    Entry::datafusion("degrees", Output::Small)
        .postgresql(&["degrees"])
        .doc("An angle in radians as degrees.")
        .example("degrees(pi())", "180"),
    Entry::datafusion("radians", Output::Small)
        .postgresql(&["radians"])
        .doc("An angle in degrees as radians.")
        .example("radians(180)", "3.141592653589793"),
    Entry::datafusion("sin", Output::Small)
        .postgresql(&["sin"])
        .doc("The sine of an angle in radians.")
        .example("sin(0)", "0"),
    Entry::datafusion("cos", Output::Small)
        .postgresql(&["cos"])
        .doc("The cosine of an angle in radians.")
        .example("cos(0)", "1"),
    Entry::datafusion("tan", Output::Small)
        .postgresql(&["tan"])
        .doc("The tangent of an angle in radians.")
        .example("tan(0)", "0"),
    Entry::datafusion("cot", Output::Small)
        .postgresql(&["cot"])
        .doc("The cotangent of an angle in radians.")
        .example("round(cot(1)::numeric, 4)", "0.6421"),
    Entry::datafusion("asin", Output::Small)
        .postgresql(&["asin"])
        .doc("The angle in radians that has a sine.")
        .example("asin(1)", "1.5707963267948966"),
    Entry::datafusion("acos", Output::Small)
        .postgresql(&["acos"])
        .doc("The angle in radians that has a cosine.")
        .example("acos(-1)", "3.141592653589793"),
    Entry::datafusion("atan", Output::Small)
        .postgresql(&["atan"])
        .doc("The angle in radians that has a tangent.")
        .example("atan(1)", "0.7853981633974483"),
    Entry::datafusion("atan2", Output::Small)
        .postgresql(&["atan2"])
        .doc("The angle in radians of the point whose y is the first number and whose x is the second.")
        .example("atan2(1, -1)", "2.356194490192345"),
    Entry::datafusion("sinh", Output::Small)
        .postgresql(&["sinh"])
        .doc("The hyperbolic sine of a number.")
        .example("sinh(0)", "0"),
    Entry::datafusion("cosh", Output::Small)
        .postgresql(&["cosh"])
        .doc("The hyperbolic cosine of a number.")
        .example("cosh(0)", "1"),
    Entry::datafusion("tanh", Output::Small)
        .postgresql(&["tanh"])
        .doc("The hyperbolic tangent of a number.")
        .example("tanh(0)", "0"),
    Entry::datafusion("asinh", Output::Small)
        .postgresql(&["asinh"])
        .doc("The number that has a hyperbolic sine.")
        .example("asinh(0)", "0"),
    Entry::datafusion("acosh", Output::Small)
        .postgresql(&["acosh"])
        .doc("The number that has a hyperbolic cosine.")
        .example("acosh(1)", "0"),
    Entry::datafusion("atanh", Output::Small)
        .postgresql(&["atanh"])
        .doc("The number that has a hyperbolic tangent.")
        .example("atanh(0)", "0"),
    Entry::datafusion("random", Output::Small)
        .postgresql(&["random"])
        .doc("A number from 0 up to but not including 1, drawn anew for each row.")
        .example("random() < 1", "true"),
    Entry::datafusion("isnan", Output::Small)
        .doc("Whether a number is NaN.")
        .example("isnan('NaN'::double precision)", "true"),
    Entry::datafusion("iszero", Output::Small)
        .doc("Whether a number is zero, of either sign.")
        .example("iszero(0)", "true"),
    Entry::datafusion("nanvl", Output::Small)
        .doc("The first number, or the second where the first is NaN.")
        .example("nanvl('NaN'::double precision, 5.5)", "5.5"),
];

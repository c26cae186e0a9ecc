"""JMS selectors: read once, then asked for every message.

::

    selector = Selector.parse("colour = 'red' AND weight > 2500")
    selector.matches(message)

A selector is a text, a tree of expressions (`Selector.expression`, to be walked and translated) and a closure. It
means what it means in ActiveMQ, which is recorded as test vectors; ``docs/selectors.md`` tells the grammar, what
differs from SQL, and the few places where ActiveMQ is not followed.
"""

from jdbcstore.selector.expression import (
    And,
    Arithmetic,
    ArithmeticOperator,
    Between,
    Comparison,
    ComparisonOperator,
    Condition,
    Constant,
    Expression,
    Flag,
    In,
    IsNull,
    Like,
    Negative,
    Not,
    Or,
    Property,
)
from jdbcstore.selector.selector import (
    CONVERT_STRINGS,
    DEPTH_MAX,
    DURABLE_LENGTH_MAX,
    LENGTH_MAX,
    TERMS_MAX,
    Selector,
)

__all__ = [
    "CONVERT_STRINGS",
    "DEPTH_MAX",
    "DURABLE_LENGTH_MAX",
    "LENGTH_MAX",
    "TERMS_MAX",
    "And",
    "Arithmetic",
    "ArithmeticOperator",
    "Between",
    "Comparison",
    "ComparisonOperator",
    "Condition",
    "Constant",
    "Expression",
    "Flag",
    "In",
    "IsNull",
    "Like",
    "Negative",
    "Not",
    "Or",
    "Property",
    "Selector",
]

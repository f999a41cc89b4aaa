"""A sympy expression as JavaScript: how a formula runs in a page."""


def javascript(expression) -> str:
    """One line of JavaScript over the names of the expression's symbols.

    >>> import sympy
    >>> javascript(2 * sympy.Symbol("n") / sympy.Symbol("beta"))
    '2*n/beta'
    """
    from sympy.printing.jscode import JavascriptCodePrinter

    printer = JavascriptCodePrinter({"user_functions": {"log2": "Math.log2"}})
    return " ".join(printer.doprint(expression).split())

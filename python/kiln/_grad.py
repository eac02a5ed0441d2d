# SPDX-License-Identifier: Apache-2.0
"""kiln.grad and kiln.value_and_grad."""
import functools
from collections.abc import Callable, Sequence
from typing import Any

from kiln import _kiln
from kiln._arrays import by_place


def grad(function: Callable[..., Any], argnums: int | Sequence[int] = 0) -> Callable[..., Any]:
    """A function of the same arguments that gives the gradient of `function` by argument `argnums`; by several, a tuple of gradients.

        d_w = kiln.grad(loss)(w, x, y)
        second = kiln.grad(kiln.grad(f))(x)

    `function` gives its value, a kiln.Array of one float, or a tuple or list whose first element that is; the others are auxiliary, and
    have no gradient. Arguments that are arrays arrive as kiln.Array, all others as they are. What it captures is constant. In a
    function that is traced a gradient costs what other operations do. docs/trace.md says what it cannot do.
    """
    return _differentiated(function, argnums, False)


def value_and_grad(function: Callable[..., Any], argnums: int | Sequence[int] = 0) -> Callable[..., Any]:
    """The same, but what it gives is a pair: what `function` returns, and the gradient, or the tuple of gradients.

        loss, (d_w, d_b) = kiln.value_and_grad(loss, (0, 1))(w, b, x)
    """
    return _differentiated(function, argnums, True)


def _differentiated(function: Callable[..., Any], argnums: int | Sequence[int], with_values: bool) -> Callable[..., Any]:
    by = (argnums,) if isinstance(argnums, int) else tuple(argnums)
    if not by or len(set(by)) != len(by) or min(by) < 0:
        raise ValueError(f"argnums: is {argnums!r}, expected numbers of arguments from 0 on, each once")

    @functools.wraps(function)
    def differentiated(*arguments: Any, **named: Any) -> Any:
        placed = by_place(function, arguments, named) if named else arguments
        returned, gradients = _kiln.differentiate(function, placed, by, with_values)
        given = gradients[0] if isinstance(argnums, int) else gradients
        return (returned, given) if with_values else given

    return differentiated

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""peers.py PEER THREADS: the programs of programs.py in numpy, jax, mlx or drjit, asked for as interleaved.Runtime does.

jax compiles a program with jit, MLX with compile; Dr.Jit traces it with freeze, by its LLVM back end (DRJIT_LIBLLVM_PATH names the
library). Each call ends when its result is there, in memory of the library.
"""
import os
import sys

import numpy
import programs

sys.path.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import answers  # noqa: E402


class NumPy:
    def __init__(self, threads):
        pass

    def prepared(self, name, arrays):
        """A call that gives the result, which may have to be converted."""
        return lambda: programs.PROGRAMS[name](numpy, *arrays)


class Jax:
    def __init__(self, threads):
        os.environ["XLA_FLAGS"] = f"--xla_cpu_multi_thread_eigen={'true' if threads > 1 else 'false'}"

    def prepared(self, name, arrays):
        import jax
        arrays = [jax.numpy.asarray(a) for a in arrays]
        compiled = jax.jit(lambda *a: programs.PROGRAMS[name](jax.numpy, *a))
        return lambda: compiled(*arrays).block_until_ready()


class Mlx:
    def __init__(self, threads):
        pass

    def prepared(self, name, arrays):
        import mlx.core as mx
        arrays = [mx.array(a) for a in arrays]
        compiled = mx.compile(lambda *a: programs.PROGRAMS[name](mx, *a))

        def run():
            result = compiled(*arrays)
            mx.eval(result)
            return result

        return run


class DrJit:
    """Programs over tensors; a product with a vector is a sum of products, as Dr.Jit has none."""

    class Library:
        def __init__(self, drjit):
            self.exp, self.log, self.sqrt, self.tanh = drjit.exp, drjit.log, drjit.sqrt, drjit.tanh
            self.where, self.reshape = drjit.select, drjit.reshape
            self.drjit = drjit

        def reduced(self, reduce, x, axis, keepdims):
            if axis is None:
                return reduce(x)
            y = reduce(x, axis=axis)
            return self.drjit.reshape(y, (*x.shape[:axis], 1, *x.shape[axis + 1:])) if keepdims else y

        def sum(self, x, axis=None, keepdims=False):
            return self.reduced(self.drjit.sum, x, axis, keepdims)

        def max(self, x, axis, keepdims=False):
            return self.reduced(self.drjit.max, x, axis, keepdims)

        def min(self, x, axis, keepdims=False):
            return self.reduced(self.drjit.min, x, axis, keepdims)

        def mean(self, x, axis, keepdims=False):
            return self.sum(x, axis, keepdims) * (1.0 / x.shape[axis])

        def matmul(self, a, b):
            if len(a.shape) == 2:
                return self.sum(a * self.drjit.reshape(b, (1, a.shape[1])), 1)
            return self.sum(self.drjit.reshape(a, (b.shape[0], 1)) * b, 0)

    def __init__(self, threads):
        import drjit
        drjit.set_thread_count(threads)

    def prepared(self, name, arrays):
        import drjit
        from drjit.llvm import TensorXf
        arrays = [TensorXf(a) for a in arrays]
        library = self.Library(drjit)
        frozen = drjit.freeze(lambda *a: programs.PROGRAMS[name](library, *a))

        def run():
            result = frozen(*arrays)
            drjit.eval(result)
            drjit.sync_thread()
            return result

        return run


PEERS = {"numpy": NumPy, "jax": Jax, "mlx": Mlx, "drjit": DrJit}


def main():
    peer = PEERS[sys.argv[1]](int(sys.argv[2]))

    def loaded(request):
        arrays = [numpy.load(path) for path in request["inputs"].values()]
        run = peer.prepared(request["onnx"], arrays)
        for _ in range(3):
            result = run()
        numpy.save(f"{request['results']}0.npy", numpy.array(result, dtype=numpy.float32).reshape(numpy.shape(result)))
        return run, run, {"ok": True}

    answers.answer_all(loaded)


if __name__ == "__main__":
    main()

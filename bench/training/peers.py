#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""peers.py PEER THREADS: training steps in torch (eager, inductor) or jax, asked for as `kiln-bench-training serve` is.

Torch's optimizers are its fused ones; jax's are the same formulas, compiled with the step, which reuses the memory of what it replaces.
"""
import os
import sys

import networks
import seeded

sys.path.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import answers  # noqa: E402


class Eager:
    def __init__(self, threads, name):
        import torch
        from torch_steps import Network
        torch.set_num_threads(threads)
        network = self.network = Network(name, False)
        self.loss = self.compiled(network.loss)

        def step():
            network.optimizer.zero_grad()
            loss = self.loss()
            loss.backward()
            network.optimizer.step()
            return loss.item()

        self.step = step

    def compiled(self, loss):
        return loss


class Inductor(Eager):
    def compiled(self, loss):
        import torch
        return torch.compile(loss, dynamic=False)


class Jax:
    """Threads are as many as the process may use CPUs."""

    def __init__(self, _, name):
        import jax
        import layers
        ports = networks.text(name, False)
        tensors = {n: jax.numpy.asarray(seeded.values(p)) for n, p in ports.items()}
        parameters = {n: tensors[n] for n, p in ports.items() if p.role == "parameter"}
        data = {n: t for n, t in tensors.items() if n not in parameters}
        optimizer, lr = networks.OPTIMIZERS[name]
        moments = [jax.tree.map(jax.numpy.zeros_like, parameters) for _ in range(2 if optimizer == "adam" else 1)]

        def loss_of(parameters, data):
            return networks.NETWORKS[name](layers.Jax({**parameters, **data}), False)

        def adam(p, g, m, v, t):
            m, v = m + .1 * (g - m), .999 * v + .001 * g * g
            return p - lr / (1 - .9**t) * m / (jax.numpy.sqrt(v) / jax.numpy.sqrt(1 - .999**t) + 1e-8), m, v

        def sgd(p, g, m, t):
            m = .9 * m + g
            return p - lr * m, m

        def step(parameters, moments, t, data):
            loss, gradients = jax.value_and_grad(loss_of)(parameters, data)
            rule = adam if optimizer == "adam" else sgd
            new = {n: rule(p, gradients[n], *(m[n] for m in moments), t + 1) for n, p in parameters.items()}
            return loss, {n: v[0] for n, v in new.items()}, [{n: v[k + 1] for n, v in new.items()} for k in range(len(moments))], t + 1

        compiled = jax.jit(step, donate_argnums=(0, 1))
        state = [parameters, moments, jax.numpy.float32(0)]

        def run():
            loss, *state[:] = compiled(*state, data)
            return float(loss)

        self.step = run


PEERS = {"eager": Eager, "inductor": Inductor, "jax": Jax}


def main():
    peer, threads = sys.argv[1], int(sys.argv[2])

    def loaded(request):
        runtime = PEERS[peer](threads, request["name"])
        return runtime, runtime.step, {"ok": True, "loss": runtime.step()}

    answers.answer_all(loaded)


if __name__ == "__main__":
    main()

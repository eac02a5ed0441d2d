# SPDX-License-Identifier: Apache-2.0
"""Networks of networks.py in torch: losses, gradients and steps, in f32 or f64."""
import torch

import layers
import networks
import seeded


class Network:
    def __init__(self, name, small, type=torch.float32, channels_last=False):
        self.name, self.small = name, small
        self.ports = networks.text(name, small)
        self.tensors, self.parameters = {}, {}
        for port in self.ports.values():
            tensor = torch.from_numpy(seeded.values(port))
            tensor = tensor.to(type) if port.type == "f32" else tensor
            if channels_last and tensor.ndim == 4:
                tensor = tensor.contiguous(memory_format=torch.channels_last)
            self.tensors[port.name] = tensor
            if port.role == "parameter":
                self.parameters[port.name] = tensor.requires_grad_()
        optimizer, lr = networks.OPTIMIZERS[name]
        self.optimizer = self.new_optimizer(optimizer, lr)

    def new_optimizer(self, name, lr):
        values = list(self.parameters.values())
        return torch.optim.SGD(values, lr, momentum=.9, fused=True) if name == "sgd" else torch.optim.Adam(values, lr, fused=True)

    def loss(self):
        return networks.NETWORKS[self.name](layers.Torch(self.tensors), self.small)

    def gradients(self):
        """The loss and, by name, gradients as arrays of f64."""
        loss = self.loss()
        found = torch.autograd.grad(loss, list(self.parameters.values()))
        return loss.item(), {n: g.double().numpy() for n, g in zip(self.parameters, found)}

    def step(self):
        """The loss before the step."""
        self.optimizer.zero_grad()
        loss = self.loss()
        loss.backward()
        self.optimizer.step()
        return loss

    def curve(self, steps):
        return [self.step().item() for _ in range(steps)]

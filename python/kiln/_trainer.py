# SPDX-License-Identifier: Apache-2.0
"""kiln.Trainer."""
import os
from collections.abc import Sequence
from typing import Any, Literal, Unpack

from kiln import _kiln, _settings


class Trainer(_kiln.Trainer):
    """Trains the parameters of a model, step by step.

        trainer = kiln.Trainer("net.onnx", loss="cross_entropy:smoothing=0.1", optimizer="adamw:weight_decay=0.1", lr=3e-4)
        for x, y in batches:
            loss = trainer.step(x=x, labels=y)
        loss, outputs = trainer.evaluate(x=x_test, labels=y_test)
        trainer.save("run.safetensors")             # and load(): goes on with the same bits
        trainer.export_onnx("trained.onnx")

    `model` is a path, an onnx.ModelProto, or bytes. Losses are cross_entropy, mse, bce, huber and output (the model's own),
    optimizers sgd, adam, adamw, adagrad, rmsprop and lion, schedules constant, cosine, step and exponential, each with options
    behind a colon as `kiln train` has them. Inputs of a step have the model's names, and `labels` theirs. Patterns of names say
    what is trained. Settings are attributes of CompileOptions; steps begin on the VM while kernels are compiled.
    """

    def __init__(self, model: Any, options: _kiln.CompileOptions | None = None, *, loss: str = "cross_entropy", optimizer: str = "adam",
                 schedule: str = "constant", lr: float = 1e-3, output: str = "", labels: str = "labels", parameters: Sequence[str] = (),
                 frozen: Sequence[str] = (), clip_norm: float = 0, clip_value: float = 0,
                 precision: Literal["float32", "bfloat16", "float16"] = "float32", loss_scale: float = 65536, micro_batches: int = 1,
                 batch_norm_momentum: float = 0.9, seed: int = 0, name: str = "model", folder: str | os.PathLike[str] = "",
                 **settings: Unpack[_settings.CompileSettings]) -> None:
        if options is None:
            options = _kiln.CompileOptions()
            options.compile_mode = "background"
        made = _settings.with_helpers(_settings.applied(options, settings, _settings.CompileSettings))
        more = {
            "output": output, "labels": labels, "parameters": list(parameters), "frozen": list(frozen), "clip_norm": float(clip_norm),
            "clip_value": float(clip_value), "precision": precision, "loss_scale": float(loss_scale), "micro_batches": micro_batches,
            "batch_norm_momentum": float(batch_norm_momentum), "seed": seed}
        source = model.SerializeToString() if hasattr(model, "SerializeToString") else model
        super().__init__(source, made, name, os.fspath(folder), loss, optimizer, schedule, float(lr), more)

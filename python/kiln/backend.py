# SPDX-License-Identifier: Apache-2.0
"""Kiln as a backend of ONNX (onnx.backend.base); needs the package onnx.

    import kiln.backend
    rep = kiln.backend.prepare(onnx.load("net.onnx"), device="CPU", threads=2)
    outputs = rep.run([x])

Keywords are settings of kiln.compile. onnx.backend.test.BackendTest(kiln.backend, __name__) runs ONNX's own tests.
"""
from collections.abc import Mapping, Sequence
from typing import Any

import numpy
import onnx
from onnx.backend.base import Backend, BackendRep, namedtupledict

import kiln


class KilnRep(BackendRep):
    """A model that is ready to run."""

    def __init__(self, model: kiln.Model) -> None:
        self.model = model

    def run(self, inputs: Any, **kwargs: Any) -> tuple[Any, ...]:
        """`inputs`: arrays in the model's order, a dict by name, or the only array."""
        del kwargs
        if isinstance(inputs, Mapping):
            given = {name: _array(value) for name, value in inputs.items()}
        else:
            arrays = inputs if isinstance(inputs, Sequence) and not isinstance(inputs, (str, bytes)) else [inputs]
            ports = self.model.inputs
            if len(arrays) > len(ports):
                raise kiln.InvalidArgumentError(f"inputs: {len(arrays)} are given, and the model has {len(ports)}")
            given = {port.name: _array(value) for port, value in zip(ports, arrays)}
        outputs = self.model.run(given)
        return namedtupledict("Outputs", list(outputs))(*outputs.values())


def _array(value: Any) -> Any:
    """Tests of ONNX also pass plain numbers."""
    return numpy.asarray(value) if isinstance(value, (bool, int, float, list)) else value


class KilnBackend(Backend):
    """Kiln's functions as onnx.backend.base wants them."""

    @classmethod
    def is_compatible(cls, model: onnx.ModelProto, device: str = "CPU", **kwargs: Any) -> bool:
        """Whether Kiln has all operators of the model."""
        del kwargs
        try:
            return cls.supports_device(device) and not kiln.describe(model).unsupported
        except kiln.Error:
            return False

    @classmethod
    def prepare(cls, model: onnx.ModelProto, device: str = "CPU", **kwargs: Any) -> KilnRep:
        if not cls.supports_device(device):
            raise kiln.UnimplementedError(f'device: is "{device}", expected CPU')
        onnx.checker.check_model(model)
        return KilnRep(kiln.compile(model, **kwargs))

    @classmethod
    def run_model(cls, model: onnx.ModelProto, inputs: Any, device: str = "CPU", **kwargs: Any) -> tuple[Any, ...]:
        return cls.prepare(model, device, **kwargs).run(inputs)

    @classmethod
    def run_node(cls, node: onnx.NodeProto, inputs: Any, device: str = "CPU", outputs_info: Sequence[tuple[Any, Any]] | None = None,
                 **kwargs: Any) -> tuple[Any, ...]:
        """A model of one node; types of outputs that cannot be inferred are told by `outputs_info`. Without `opset_version` the operator
        is that of its newest definition."""
        opset = int(kwargs.pop("opset_version", 0)) or onnx.defs.get_schema(node.op_type, node.domain).since_version
        return cls.run_model(_model_of(node, [_array(value) for value in inputs], outputs_info, opset), inputs, device, **kwargs)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        return device.split(":")[0] == "CPU"


def _model_of(node: onnx.NodeProto, arrays: Sequence[Any], outputs_info: Sequence[tuple[Any, Any]] | None, opset: int) -> onnx.ModelProto:
    def info(name: str, dtype: Any, shape: Any) -> onnx.ValueInfoProto:
        return onnx.helper.make_tensor_value_info(name, onnx.helper.np_dtype_to_tensor_dtype(numpy.dtype(dtype)), shape)

    named = [name for name in node.input if name]
    inputs = [info(name, array.dtype, array.shape) for name, array in zip(named, arrays)]
    outputs = ([info(name, *told) for name, told in zip(node.output, outputs_info)] if outputs_info is not None else
               [onnx.ValueInfoProto(name=name) for name in node.output if name])
    model = onnx.helper.make_model(onnx.helper.make_graph([node], node.op_type, inputs, outputs),
                                   opset_imports=[onnx.helper.make_opsetid(node.domain, opset)])
    return model if outputs_info is not None else onnx.shape_inference.infer_shapes(model, strict_mode=True)


prepare = KilnBackend.prepare
run_node = KilnBackend.run_node
run_model = KilnBackend.run_model
supports_device = KilnBackend.supports_device
is_compatible = KilnBackend.is_compatible

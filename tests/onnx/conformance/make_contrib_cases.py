#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the cases of tests/data/contrib: one node each, with inputs and what ONNX Runtime gives: of domain com.microsoft,
and of ONNX's own where the operator's text leaves open what deployed runtimes agree on, or its tests have no such case.

usage: make_contrib_cases.py DIR        needs onnx, onnxruntime and numpy
"""
import pathlib
import sys

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper

ROOT = pathlib.Path(sys.argv[1]) / "node"
rng = np.random.default_rng(7)
DOMAIN = "com.microsoft"


def f32(*shape, lo=-1, hi=1):
    return rng.uniform(lo, hi, shape).astype(np.float32)


def case(name, op, inputs, outputs=1, consts=(), dynamic=True, domain=DOMAIN, opset=17, **attrs):
    """`inputs`: name and array, or None for one that is left out; those in `consts` are initializers."""
    names = [k if v is not None else "" for k, v in inputs]
    outs = ["y%d" % i for i in range(outputs)] if isinstance(outputs, int) else outputs
    node = helper.make_node(op, names, outs, name="n", domain=domain, **attrs)
    given = [(k, v) for k, v in inputs if v is not None]
    ports = [helper.make_tensor_value_info(
        k, helper.np_dtype_to_tensor_dtype(v.dtype),
        ["%s_%d" % (k, i) for i in range(v.ndim)] if dynamic == "all" else v.shape)
        for k, v in given if k not in consts]
    inits = [numpy_helper.from_array(v, k) for k, v in given if k in consts]
    wanted = [o for o in outs if o]
    graph = helper.make_graph([node], "g", ports, [helper.make_empty_tensor_value_info(o) for o in wanted], inits)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset), helper.make_opsetid(DOMAIN, 1)])
    model.ir_version = 8 if opset < 23 else 10
    folder = ROOT / ("test_" + name)
    data = folder / "test_data_set_0"
    try:
        session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
        feeds = {k: v for k, v in given if k not in consts}
        results = session.run(wanted, feeds)
    except Exception as e:
        print("SKIP", name, str(e)[:300])
        return
    data.mkdir(parents=True, exist_ok=True)
    (folder / "model.onnx").write_bytes(model.SerializeToString())
    for i, (k, v) in enumerate((k, v) for k, v in given if k not in consts):
        (data / ("input_%d.pb" % i)).write_bytes(numpy_helper.from_array(v, k).SerializeToString())
    for i, (k, v) in enumerate(zip(wanted, results)):
        (data / ("output_%d.pb" % i)).write_bytes(numpy_helper.from_array(v, k).SerializeToString())
    print("ok  ", name, [r.shape for r in results])


case("bias_gelu", "BiasGelu", [("x", f32(2, 3, 8)), ("b", f32(8))])
case("gelu", "Gelu", [("x", f32(2, 3, 8))])
case("fast_gelu", "FastGelu", [("x", f32(2, 3, 8)), ("b", f32(8))])
case("fast_gelu_no_bias", "FastGelu", [("x", f32(2, 3, 8))])
case("quick_gelu", "QuickGelu", [("x", f32(2, 3, 8))])
case("quick_gelu_alpha", "QuickGelu", [("x", f32(2, 3, 8))], alpha=1.0)
case("fused_matmul", "FusedMatMul", [("a", f32(2, 3, 4)), ("b", f32(2, 5, 4))], transB=1, alpha=0.5)
case("fused_matmul_trans_a", "FusedMatMul", [("a", f32(2, 4, 3)), ("b", f32(2, 4, 5))], transA=1)
case("fused_matmul_trans_batch", "FusedMatMul", [("a", f32(3, 2, 4)), ("b", f32(2, 4, 5))], transBatchA=1)
case("skip_layer_norm", "SkipLayerNormalization",
     [("x", f32(2, 3, 8)), ("s", f32(2, 3, 8)), ("g", f32(8)), ("b", f32(8)), ("c", f32(8))],
     ["y", "", "", "sum"], epsilon=1e-5)
case("skip_layer_norm_no_beta", "SkipLayerNormalization", [("x", f32(2, 3, 8)), ("s", f32(2, 3, 8)), ("g", f32(8))])
case("skip_layer_norm_broadcast", "SkipLayerNormalization",
     [("x", f32(2, 3, 8)), ("s", f32(1, 3, 8)), ("g", f32(8)), ("b", f32(8))], epsilon=1e-5)
case("skip_simplified_layer_norm", "SkipSimplifiedLayerNormalization",
     [("x", f32(2, 3, 8)), ("s", f32(2, 3, 8)), ("g", f32(8)), ("c", f32(8))], ["y", "", "", "sum"], epsilon=1e-5)
ids = rng.integers(0, 10, (2, 5)).astype(np.int32)
seg = rng.integers(0, 2, (2, 5)).astype(np.int32)
mask = np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], np.int32)
case("embed_layer_norm", "EmbedLayerNormalization",
     [("ids", ids), ("seg", seg), ("w", f32(10, 8)), ("p", f32(6, 8)), ("t", f32(2, 8)), ("g", f32(8)), ("b", f32(8)),
      ("m", mask)], ["y", "mask_index"])
case("embed_layer_norm_no_segment", "EmbedLayerNormalization",
     [("ids", ids), ("seg", None), ("w", f32(10, 8)), ("p", f32(6, 8)), ("t", None), ("g", f32(8)), ("b", f32(8))],
     ["y", "mask_index", "sum"])
x = f32(2, 5, 8)
w = f32(8, 24)
b = f32(24)
case("attention", "Attention", [("x", x), ("w", w), ("b", b)], num_heads=2)
case("attention_mask_2d", "Attention", [("x", x), ("w", w), ("b", b), ("m", mask)], num_heads=2)
case("attention_mask_length", "Attention", [("x", x), ("w", w), ("b", b), ("m", np.array([3, 5], np.int32))], num_heads=2)
case("attention_mask_3d", "Attention",
     [("x", x), ("w", w), ("b", b), ("m", np.tril(np.ones((2, 5, 5), np.int32)))], num_heads=2)
case("attention_causal", "Attention", [("x", x), ("w", w), ("b", b)], num_heads=2, unidirectional=1)
case("attention_scale", "Attention", [("x", x), ("w", w), ("b", b)], num_heads=2, scale=0.3)
case("attention_sizes", "Attention", [("x", x), ("w", f32(8, 28)), ("b", f32(28))], num_heads=2,
     qkv_hidden_sizes=[8, 8, 12])
case("attention_bias", "Attention",
     [("x", x), ("w", w), ("b", b), ("m", None), ("past", None), ("r", f32(2, 2, 5, 5))], num_heads=2)
case("attention_past", "Attention",
     [("x", x), ("w", w), ("b", b), ("m", None), ("past", f32(2, 2, 2, 3, 4))], ["y", "present"], num_heads=2,
     unidirectional=1)
case("attention_present", "Attention", [("x", x), ("w", w), ("b", b)], ["y", "present"], num_heads=2)
q, k, v = f32(2, 5, 8), f32(2, 7, 8), f32(2, 7, 8)
case("multi_head_attention", "MultiHeadAttention", [("q", q), ("k", k), ("v", v)], num_heads=2)
case("multi_head_attention_bias", "MultiHeadAttention", [("q", q), ("k", k), ("v", v), ("b", f32(24))], num_heads=2)
case("multi_head_attention_key_mask", "MultiHeadAttention",
     [("q", q), ("k", k), ("v", v), ("b", None), ("m", np.array([[1] * 4 + [0] * 3, [1] * 7], np.int32))], num_heads=2)
case("multi_head_attention_key_length", "MultiHeadAttention",
     [("q", q), ("k", k), ("v", v), ("b", None), ("m", np.array([4, 7], np.int32))], num_heads=2)
case("multi_head_attention_score_bias", "MultiHeadAttention",
     [("q", q), ("k", k), ("v", v), ("b", None), ("m", None), ("r", f32(1, 2, 5, 7))], num_heads=2)
case("multi_head_attention_past", "MultiHeadAttention",
     [("q", q), ("k", f32(2, 5, 8)), ("v", f32(2, 5, 8)), ("b", None), ("m", None), ("r", None), ("pk", f32(2, 2, 3, 4)),
      ("pv", f32(2, 2, 3, 4))], ["y", "present_key", "present_value"], num_heads=2)
case("multi_head_attention_cross", "MultiHeadAttention",
     [("q", q), ("k", f32(2, 2, 6, 4)), ("v", f32(2, 2, 6, 4))], num_heads=2)
case("multi_head_attention_causal", "MultiHeadAttention", [("q", q), ("k", f32(2, 5, 8)), ("v", f32(2, 5, 8))],
     num_heads=2, unidirectional=1)
angle = np.arange(16)[:, None] / 10000 ** (np.arange(0, 4, 2) / 4)
cos, sin = np.cos(angle).astype(np.float32), np.sin(angle).astype(np.float32)
places = np.array([[0, 1, 2, 3, 4], [3, 4, 5, 6, 7]], np.int64)
case("rotary_embedding", "RotaryEmbedding", [("x", f32(2, 5, 8)), ("p", places), ("c", cos), ("s", sin)])
case("rotary_embedding_offset", "RotaryEmbedding",
     [("x", f32(2, 5, 8)), ("p", np.array([2], np.int64)), ("c", cos), ("s", sin)])
case("rotary_embedding_interleaved", "RotaryEmbedding", [("x", f32(2, 5, 8)), ("p", places), ("c", cos), ("s", sin)],
     interleaved=1)
case("rotary_embedding_heads", "RotaryEmbedding", [("x", f32(2, 2, 5, 4)), ("p", places), ("c", cos), ("s", sin)])
case("rotary_embedding_partial", "RotaryEmbedding", [("x", f32(2, 5, 16)), ("p", places), ("c", cos), ("s", sin)],
     num_heads=2, rotary_embedding_dim=4)


wide = np.arange(16)[:, None] / 10000 ** (np.arange(0, 16, 2) / 16)
wide_cos, wide_sin = np.cos(wide).astype(np.float32), np.sin(wide).astype(np.float32)


def gqa(name, length, past, lengths, outputs=("y", "present_key", "present_value"), packed=False, **attrs):
    """Two query heads and one key head of size 16; past < 0: no past is given."""
    state = [("pk", f32(2, 1, past, 16)), ("pv", f32(2, 1, past, 16))] if past >= 0 else [("pk", None), ("pv", None)]
    rotary = [("c", wide_cos), ("s", wide_sin)] if attrs.get("do_rotary") else []
    qkv = [("q", f32(2, length, 64)), ("k", None), ("v", None)] if packed else [
        ("q", f32(2, length, 32)), ("k", f32(2, length, 16)), ("v", f32(2, length, 16))]
    total = np.array(length + max(past, 0), np.int32)
    case(name, "GroupQueryAttention", qkv + state + [("l", np.array(lengths, np.int32)), ("t", total)] + rotary,
         list(outputs), num_heads=2, kv_num_heads=1, **attrs)


gqa("group_query_attention_prompt", 5, 0, [4, 4])
gqa("group_query_attention_step", 1, 4, [4, 4])
gqa("group_query_attention_rotary_prompt", 5, 0, [4, 4], do_rotary=1)
gqa("group_query_attention_rotary_step", 1, 4, [4, 4], do_rotary=1)
gqa("group_query_attention_window", 5, 0, [4, 4], local_window_size=2)
gqa("group_query_attention_softcap", 5, 0, [4, 4], softcap=2.0)
gqa("group_query_attention_packed", 5, 0, [4, 4], packed=True)
gqa("group_query_attention_packed_rotary", 5, 0, [4, 4], packed=True, do_rotary=1)
gqa("group_query_attention_no_past", 5, -1, [4, 4])
gqa("group_query_attention_interleaved", 5, 0, [4, 4], do_rotary=1, rotary_interleaved=1)
gqa("group_query_attention_ragged_prompt", 5, 0, [2, 4], outputs=("y",))
case("fused_conv_relu", "FusedConv", [("x", f32(1, 3, 6, 6)), ("w", f32(4, 3, 3, 3)), ("b", f32(4))],
     activation="Relu", pads=[1, 1, 1, 1])
case("fused_conv_sum", "FusedConv",
     [("x", f32(1, 3, 6, 6)), ("w", f32(4, 3, 3, 3)), ("b", f32(4)), ("z", f32(1, 4, 4, 4))], activation="Relu")
case("fused_conv_hard_sigmoid", "FusedConv", [("x", f32(1, 3, 6, 6)), ("w", f32(4, 3, 3, 3))],
     activation="HardSigmoid", activation_params=[0.3, 0.4])
case("fused_conv_clip", "FusedConv", [("x", f32(1, 3, 6, 6)), ("w", f32(4, 3, 3, 3))], activation="Clip",
     activation_params=[-0.5, 0.5])
for bits, block, zero in [(4, 16, False), (4, 32, True), (8, 32, True)]:
    k, n = 40, 6
    blocks = (k + block - 1) // block
    weights = rng.integers(0, 256, (n, blocks, block * bits // 8)).astype(np.uint8)
    zeros = rng.integers(0, 256, n * ((blocks * bits + 7) // 8)).astype(np.uint8) if zero else None
    case("matmul_nbits_%d_%d%s" % (bits, block, "_zeros" if zero else ""), "MatMulNBits",
         [("x", f32(2, 3, k)), ("w", weights), ("s", f32(n * blocks)), ("z", zeros)], consts=("w", "s", "z"),
         K=k, N=n, bits=bits, block_size=block)

# Rows of different length, a buffer that is longer than its rows, and one that all rows fill.
gqa("group_query_attention_ragged_step", 1, 4, [4, 2])
gqa("group_query_attention_ragged_rotary_step", 1, 4, [2, 4], do_rotary=1)
gqa("group_query_attention_ragged_window", 1, 6, [6, 3], local_window_size=3)


def gqa_shared(name, past, lengths, **attrs):
    """One new token; total_sequence_length is that of the longest row, the buffer of past keys is longer."""
    state = [("pk", f32(2, 1, past, 16)), ("pv", f32(2, 1, past, 16))]
    qkv = [("q", f32(2, 1, 32)), ("k", f32(2, 1, 16)), ("v", f32(2, 1, 16))]
    case(name, "GroupQueryAttention",
         qkv + state + [("l", np.array(lengths, np.int32)), ("t", np.array(max(lengths) + 1, np.int32))],
         ["y", "present_key", "present_value"], num_heads=2, kv_num_heads=1, **attrs)


gqa_shared("group_query_attention_long_buffer", 8, [3, 3])
gqa_shared("group_query_attention_ragged_long_buffer", 8, [1, 5])
case("attention_causal_mask_row", "Attention", [("x", x), ("w", w), ("b", b), ("m", np.array([[0, 0, 1, 1, 1], [1] * 5], np.int32))],
     num_heads=2, unidirectional=1, mask_filter_value=-1000.0)


# ---- ONNX's own operators

def own(name, op, inputs, outputs=1, consts=(), opset=17, **attrs):
    case(name, op, inputs, outputs, consts, domain="", opset=opset, **attrs)


def ints(*values, type=np.int64):
    return np.array(values, type)


big = np.array([[300, 310, 400, 350], [1000, -2000, 30000, 4]], np.float16)
own("rms_normalization_f16", "RMSNormalization", [("x", big), ("s", np.array([1, 2, 0.5, 1], np.float16))], opset=23)
far = 2**53 + 1
own("constant_of_shape_i64", "ConstantOfShape", [("s", ints(2))], consts=("s",), value=numpy_helper.from_array(ints(far)))
own("constant_of_shape_u64", "ConstantOfShape", [("s", ints(2))], consts=("s",),
    value=numpy_helper.from_array(ints(2**63 + 1, type=np.uint64)))
own("pad_i64", "Pad", [("x", ints(1)), ("p", ints(1, 1)), ("v", np.array(far))], consts=("p", "v"))
own("pad_u64", "Pad", [("x", ints(1, type=np.uint64)), ("p", ints(1, 1)), ("v", np.array(2**63 + 1, np.uint64))],
    consts=("p", "v"))
own("pad_wrap_cut", "Pad", [("x", np.arange(16, dtype=np.float32).reshape(4, 4)), ("p", ints(-1, 1, 3, 2))], consts=("p",),
    opset=19, mode="wrap")
own("pad_reflect_cut", "Pad", [("x", np.arange(20, dtype=np.float32).reshape(4, 5)), ("p", ints(0, -2, 2, 2))],
    consts=("p",), mode="reflect")
own("dynamic_quantize_linear_zeros", "DynamicQuantizeLinear", [("x", np.zeros((2, 3), np.float32))], 3)
own("shrink_i32", "Shrink", [("x", ints(-5, -2, -1, 0, 1, 2, 5, type=np.int32))], lambd=1.5, bias=0.5)
own("reduce_l2_i32", "ReduceL2", [("x", ints(3, 4, 5, type=np.int32))], axes=[0])
own("reduce_log_sum_exp_i64", "ReduceLogSumExp", [("x", ints(3, 4, 5))], axes=[0])
own("thresholded_relu_nan", "ThresholdedRelu", [("x", np.array([np.nan, 2, 0.5], np.float32))])
own("gathernd_one_element_axes", "GatherND", [("x", ints(7).reshape(1, 1)), ("i", np.zeros((3, 2, 2), np.int64))])
image = f32(1, 1, 10, 10, lo=-3, hi=3)


def resize(name, x, sizes=None, scales=None, opset=13, **attrs):
    own("resize_" + name, "Resize",
        [("x", x), ("r", None), ("s", np.array(scales, np.float32) if scales else None), ("z", ints(*sizes) if sizes else None)],
        consts=("s", "z"), opset=opset, **attrs)


resize("size_in_f32", image, scales=[1, 1, 0.7, 0.3], mode="nearest")
resize("align_corners_whole", image, scales=[1, 1, 0.77, 0.55], mode="linear", coordinate_transformation_mode="align_corners")
resize("align_corners_one", image, sizes=[1, 1, 1, 4], mode="linear", coordinate_transformation_mode="align_corners")
resize("places_in_f32", image, sizes=[1, 1, 6, 7], mode="nearest", coordinate_transformation_mode="asymmetric",
       nearest_mode="floor")
resize("places_in_f32_up", image, sizes=[1, 1, 23, 31], mode="nearest", nearest_mode="ceil")
resize("bytes", (np.arange(25) * 9).astype(np.uint8).reshape(1, 1, 5, 5), scales=[1, 1, 2, 1.5], mode="linear")

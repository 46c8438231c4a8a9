"""An exported network with the encoder's matrix products in eight-bit integers.

Weights get one scale per output channel and seven bits, so that sums of two products
fit sixteen bits on processors without newer instructions: the same answer everywhere.
Activations get one fixed scale per tensor, measured on given states; a state's answer
does not depend on the states beside it. Everything else stays in float32.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper, numpy_helper

_DOMAIN: Final = "com.microsoft"
"""Of the operator that multiplies integers, scales and adds the bias in one go."""
_LARGEST_WEIGHT: Final = 63
_LARGEST_ACTIVATION: Final = 255
_SMALLEST_SIDE: Final = 64
"""Smaller matrices are not worth it."""

Feeds = Iterable[Mapping[str, NDArray[Any]]]
"""Inputs of the graph, batch by batch."""


def with_integer_products(
    model: onnx.ModelProto, feeds: Feeds, prefix: str
) -> onnx.ModelProto:
    """Return a copy that multiplies by constant matrices in integers.

    Parameters
    ----------
    model : ModelProto
        In float32, as ``onnx_export`` traces it.
    feeds : iterable of mapping
        Inputs whose activations say how large activations become.
    prefix : str
        Only products whose name begins so are changed.
    """
    result = onnx.ModelProto()
    result.CopyFrom(model)
    graph = result.graph
    constants = {tensor.name: tensor for tensor in graph.initializer}
    products = [
        node
        for node in graph.node
        if node.op_type == "MatMul"
        and node.name.startswith(prefix)
        and node.input[1] in constants
        and min(constants[node.input[1]].dims) >= _SMALLEST_SIDE
    ]
    ranges = _ranges(model, {node.input[0] for node in products}, feeds)
    biases = _biases(graph, constants)
    replaced: dict[str, list[onnx.NodeProto]] = {}
    dropped: set[str] = set()
    quantised: set[str] = set()
    for node in products:
        source = node.input[0]
        made = []
        if source not in quantised:
            quantised.add(source)
            made.append(_quantise(graph, source, *ranges[source]))
        output = node.output[0]
        bias = ""
        if output in biases:
            addition, bias = biases[output]
            dropped.add(addition.name)
            output = addition.output[0]
        weight = constants[node.input[1]]
        made.append(_product(graph, node, weight, bias, output))
        replaced[node.name] = made
    _rebuild(graph, replaced, dropped)
    if not any(entry.domain == _DOMAIN for entry in result.opset_import):
        result.opset_import.append(helper.make_opsetid(_DOMAIN, 1))
    return result


def _ranges(
    model: onnx.ModelProto, names: set[str], feeds: Feeds
) -> dict[str, tuple[float, float]]:
    """Return the smallest and largest number of each tensor, zero included."""
    import onnxruntime

    watched = onnx.ModelProto()
    watched.CopyFrom(model)
    ordered = sorted(names)
    watched.graph.output.extend(onnx.ValueInfoProto(name=name) for name in ordered)
    session = onnxruntime.InferenceSession(
        watched.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    low = dict.fromkeys(ordered, 0.0)
    high = dict.fromkeys(ordered, 0.0)
    for feed in feeds:
        for name, values in zip(ordered, session.run(ordered, dict(feed)), strict=True):
            low[name] = min(low[name], float(values.min()))
            high[name] = max(high[name], float(values.max()))
    return {name: (low[name], high[name]) for name in ordered}


def _biases(
    graph: onnx.GraphProto, constants: Mapping[str, onnx.TensorProto]
) -> dict[str, tuple[onnx.NodeProto, str]]:
    """Return, by name of a tensor, the addition of a constant that alone reads it."""
    readers: dict[str, list[onnx.NodeProto]] = {}
    for node in graph.node:
        for name in node.input:
            readers.setdefault(name, []).append(node)
    vectors = {name for name, tensor in constants.items() if len(tensor.dims) == 1}
    found = {}
    for name, (reader, *others) in readers.items():
        if others or reader.op_type != "Add":
            continue
        bias = [other for other in reader.input if other in vectors]
        if len(bias) == 1 and name != bias[0]:
            found[name] = (reader, bias[0])
    return found


def _quantise(
    graph: onnx.GraphProto, source: str, low: float, high: float
) -> onnx.NodeProto:
    scale = max(high - low, 1e-6) / _LARGEST_ACTIVATION
    zero = round(-low / scale)
    _add(graph, f"{source}.scale", np.float32(scale))
    _add(graph, f"{source}.zero", np.uint8(zero))
    return helper.make_node(
        "QuantizeLinear",
        [source, f"{source}.scale", f"{source}.zero"],
        [f"{source}.integers"],
        name=f"{source}.quantise",
    )


def _product(
    graph: onnx.GraphProto,
    node: onnx.NodeProto,
    weight: onnx.TensorProto,
    bias: str,
    output: str,
) -> onnx.NodeProto:
    source = node.input[0]
    values = numpy_helper.to_array(weight).astype(np.float64)
    scales = np.maximum(np.abs(values).max(0), 1e-12) / _LARGEST_WEIGHT
    integers = np.rint(values / scales).astype(np.int8)
    names = [f"{node.name}.weight", f"{node.name}.scale", f"{node.name}.zero"]
    _add(graph, names[0], integers)
    _add(graph, names[1], scales.astype(np.float32))
    _add(graph, names[2], np.zeros(len(scales), np.int8))
    inputs = [
        f"{source}.integers", names[0], f"{source}.scale", names[1],
        f"{source}.zero", names[2], bias,
    ]  # fmt: skip
    return helper.make_node(
        "MatMulIntegerToFloat", inputs, [output], name=node.name, domain=_DOMAIN
    )


def _add(graph: onnx.GraphProto, name: str, values: Any) -> None:
    graph.initializer.append(numpy_helper.from_array(np.asarray(values), name))


def _rebuild(
    graph: onnx.GraphProto,
    replaced: Mapping[str, list[onnx.NodeProto]],
    dropped: set[str],
) -> None:
    """Put the new nodes in, and leave out nodes and constants that nobody reads."""
    nodes: list[onnx.NodeProto] = []
    for node in graph.node:
        if node.name in replaced:
            nodes.extend(replaced[node.name])
        elif node.name not in dropped:
            nodes.append(node)
    read = {name for node in nodes for name in node.input}
    constants = [tensor for tensor in graph.initializer if tensor.name in read]
    del graph.node[:]
    graph.node.extend(nodes)
    del graph.initializer[:]
    graph.initializer.extend(constants)

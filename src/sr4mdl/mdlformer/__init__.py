"""The MDLformer: features, networks, weights on disk, ONNX, and guides for the search.

Importing this package loads neither torch nor onnxruntime: ``config``, ``card``,
``tokens`` and ``guide`` work without torch, the other modules need the ``train`` extra.
"""

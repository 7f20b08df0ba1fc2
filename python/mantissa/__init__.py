"""Mantissa trains neural networks in integers: 8-bit weights and activations, 16-bit gradients, no fp32
copy of the weights, the same bits on any processor with any number of threads.

    >>> import mantissa as mt
    >>> image = mt.input(8, 8, 1)
    >>> h = mt.relu(mt.batch_norm(mt.conv(image, 16)))
    >>> net = mt.Network(mt.linear(mt.global_average_pool(h), 10), name="digits")
    >>> trainer = mt.Trainer(net, batch_size=50, seed=1)
    >>> history = trainer.fit(mt.Data(x, y), epochs=8)
    >>> trainer.freeze(mt.Data(x, y)).save("digits.safetensors")
"""

from . import callbacks, formats, models
from .callbacks import Callback, Checkpoint, EarlyStop, ProgressLine
from .commands import (Imported, Plan, Report, Setting, describe_data, embed, evaluate, export_onnx,
                       fill_mask, import_onnx, info, plan, quantize, report, settings, statistics,
                       train, translate)
from .data import Data, DataSet, class_weights, mantissas
from .errors import Error, InvalidInput, OverBudget
from .finetuning import FineTuning, finetune
from .formats import Format, bfp, dfp, fp32
from .language import LanguageModel, load_language_model
from .layers import (Sequential, add, attention, average_pool, average_pool3d, batch_norm,
                     bilinear_resize, concat, concat_positions, conv, conv1d, conv3d, dropout, elu,
                     embedding, flatten, gather_rows, gelu, gelu_tanh, global_average_pool,
                     group_norm, gru, hard_sigmoid, hard_swish, layer, layer_norm, leaky_relu, linear, lstm,
                     max_pool, max_pool3d, mish, multiply, position_embedding, prelu, prepend_rows,
                     reduce_max, reduce_mean, reduce_sum, relu, relu6, reshape, rms_norm, rnn,
                     rotary, row, scale, scatter_rows, sigmoid, silu, sinusoidal_positions, slice,
                     softmax, softplus, subtract, tanh, transposed_conv, upsample)
from .losses import (Loss, absolute_error, contrastive, cross_entropy, ctc, dice,
                     distilled_cross_entropy, huber_error, sigmoid_cross_entropy,
                     soft_cross_entropy, squared_error, triplet)
from .model import Model
from .network import Input, Network, Parameter
from .sequences import best_path, label_error_rate
from .texts import GeneratedText, TextLoss
from .tokenizer import Tokenizer
from .trainer import Epoch, History, Taken, Trainer
from .values import Var, indices, input, numbers, op, ops

__version__: str = info()["version"]

__all__ = [
    "Callback", "Checkpoint", "Data", "DataSet", "EarlyStop", "Epoch", "Error", "FineTuning",
    "Format", "GeneratedText", "History", "Imported", "Input", "InvalidInput", "LanguageModel",
    "Loss", "Model", "Network", "OverBudget", "Parameter", "Plan", "ProgressLine", "Report",
    "Sequential", "Setting", "Taken", "TextLoss", "Tokenizer", "Trainer", "Var", "absolute_error",
    "add", "attention", "average_pool", "average_pool3d", "batch_norm", "best_path", "bfp",
    "bilinear_resize", "callbacks", "class_weights", "concat", "concat_positions", "contrastive",
    "conv", "conv1d", "conv3d", "cross_entropy", "ctc", "describe_data", "dfp", "dice",
    "distilled_cross_entropy", "dropout", "elu", "embed", "embedding", "evaluate", "export_onnx",
    "fill_mask", "finetune", "flatten", "formats", "fp32", "gather_rows", "gelu", "gelu_tanh",
    "global_average_pool", "group_norm", "gru", "hard_sigmoid", "hard_swish", "huber_error",
    "import_onnx", "indices", "info", "input", "label_error_rate", "layer", "layer_norm",
    "leaky_relu", "linear", "load_language_model", "lstm", "mantissas", "max_pool", "max_pool3d",
    "mish", "models", "multiply", "numbers", "op", "ops", "plan", "position_embedding", "prelu",
    "prepend_rows", "quantize", "reduce_max", "reduce_mean", "reduce_sum", "relu", "relu6",
    "report", "reshape", "rms_norm", "rnn", "rotary", "row", "scale", "scatter_rows", "settings",
    "sigmoid", "sigmoid_cross_entropy", "silu", "sinusoidal_positions", "slice",
    "soft_cross_entropy", "softmax", "softplus", "squared_error", "statistics", "subtract", "tanh",
    "train", "translate", "transposed_conv", "triplet", "upsample",
]

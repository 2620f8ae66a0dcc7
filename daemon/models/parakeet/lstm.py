"""The predictor's LSTM: torch's tensors and ours."""

from collections.abc import Mapping

from ..tensor import Tensor


def lstm_tensors(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """Our tensors of all layers, of torch's that are called ``prefix`` and torch's own names.

    Torch's two biases are only ever added: ours is their sum.
    """
    found: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        kind, _, layer = name.removeprefix(prefix).rpartition("_l")
        if not name.startswith(prefix):
            continue
        if kind in ("weight_ih", "weight_hh"):
            found[f"pred.lstm.{layer}.{'Wx' if kind == 'weight_ih' else 'Wh'}"] = tensor
        elif kind == "bias_ih" and (other := tensors.get(f"{prefix}bias_hh_l{layer}")):
            found[f"pred.lstm.{layer}.bias"] = sum_of(tensor, other)
    return found


def sum_of(one: Tensor, other: Tensor) -> Tensor:
    """Their sum; where their shapes differ, a tensor with a shape that fits nothing."""
    if one.shape != other.shape:
        return Tensor((0,), one.load)
    return Tensor(one.shape, lambda: one.load() + other.load())

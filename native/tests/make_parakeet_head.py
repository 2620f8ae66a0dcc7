"""Writes data/parakeet_head.gguf: random transducers, and what NeMo's own greedy decoders find with them.

Needs numpy, gguf, torch and nemo_toolkit[asr]==3.0.0::

    python make_parakeet_head.py
"""

from pathlib import Path

import gguf
import numpy as np
import torch
from nemo.collections.asr.modules import RNNTDecoder, RNNTJoint
from nemo.collections.asr.parts.submodules.rnnt_greedy_decoding import (
    GreedyBatchedRNNTInfer,
    GreedyBatchedTDTInfer,
)

TOKENS, WIDTH, FRAMES, STREAMS = 30, 16, 24, 4
CASES = {
    "tdt": {"durations": [0, 1, 2, 3, 4], "layers": 2, "max_symbols": 10, "blank": 2.0, "stay": -4.0},
    "capped": {"durations": [0, 1, 2, 3, 4], "layers": 1, "max_symbols": 3, "blank": -3.0, "stay": 5.0},
    "rnnt": {"durations": [], "layers": 1, "max_symbols": 5, "blank": 8.0, "stay": 0.0},
}


def networks(case: dict) -> tuple[RNNTDecoder, RNNTJoint]:
    """A predictor and a joint with random weights, blank and duration 0 made likelier as the case says."""
    predictor = RNNTDecoder({"pred_hidden": WIDTH, "pred_rnn_layers": case["layers"], "dropout": 0.0}, TOKENS)
    joint = RNNTJoint(
        {
            "encoder_hidden": WIDTH,
            "pred_hidden": WIDTH,
            "joint_hidden": WIDTH,
            "activation": "relu",
            "dropout": 0.0,
        },
        TOKENS,
        num_extra_outputs=len(case["durations"]),
    )
    for name, parameter in [*predictor.named_parameters(), *joint.named_parameters()]:
        torch.nn.init.normal_(parameter, 0, 1.5 if "embed" in name else 0.45)
    with torch.no_grad():
        predictor.prediction["embed"].weight[TOKENS] = 0
        joint.joint_net[-1].bias[TOKENS] += case["blank"]
        joint.joint_net[-1].bias[TOKENS + 1 : TOKENS + 2] += case["stay"]
    return predictor.eval(), joint.eval()


def greedy(case: dict, predictor: RNNTDecoder, joint: RNNTJoint):
    """NeMo's label-looping decoder."""
    common = {
        "decoder_model": predictor,
        "joint_model": joint,
        "blank_index": TOKENS,
        "max_symbols_per_step": case["max_symbols"],
        "use_cuda_graph_decoder": False,
    }
    if case["durations"]:
        return GreedyBatchedTDTInfer(durations=case["durations"], include_duration=True, **common)
    return GreedyBatchedRNNTInfer(**common)


def tensors(predictor: RNNTDecoder, joint: RNNTJoint) -> dict[str, torch.Tensor]:
    """The weights under the names that they have in a model file."""
    lstm = predictor.prediction["dec_rnn"].lstm
    weights = {"pred.embed.weight": predictor.prediction["embed"].weight}
    for i in range(lstm.num_layers):
        weights[f"pred.lstm.{i}.Wx"] = getattr(lstm, f"weight_ih_l{i}")
        weights[f"pred.lstm.{i}.Wh"] = getattr(lstm, f"weight_hh_l{i}")
        weights[f"pred.lstm.{i}.bias"] = getattr(lstm, f"bias_ih_l{i}") + getattr(lstm, f"bias_hh_l{i}")
    for name, layer in (("enc", joint.enc), ("pred", joint.pred), ("out", joint.joint_net[-1])):
        weights[f"joint.{name}.weight"], weights[f"joint.{name}.bias"] = layer.weight, layer.bias
    return weights


@torch.no_grad()
def add_case(writer: gguf.GGUFWriter, name: str, case: dict) -> None:
    predictor, joint = networks(case)
    frames = torch.randn(STREAMS, FRAMES, WIDTH)
    lengths = torch.tensor([FRAMES, FRAMES - 1, FRAMES - 7, 1])
    decode = greedy(case, predictor, joint)
    # One by one: in a batch NeMo stores a duration of a later frame for a stream that waits for the others.
    found = [
        decode(encoder_output=frames[i : i + 1].transpose(1, 2), encoded_lengths=lengths[i : i + 1])[0][0]
        for i in range(STREAMS)
    ]
    for key, tensor in tensors(predictor, joint).items():
        writer.add_tensor(f"{name}.{key}", tensor.numpy())
    writer.add_tensor(f"{name}.frames", frames.numpy())
    writer.add_uint32(f"{name}.layers", case["layers"])
    writer.add_uint32(f"{name}.max_symbols", case["max_symbols"])
    writer.add_array(f"{name}.lengths", lengths.tolist())
    if case["durations"]:
        writer.add_array(f"{name}.durations", case["durations"])
    lists = {
        "tokens": [list(map(int, one.y_sequence)) for one in found],
        "at": [list(map(int, one.timestamp)) for one in found],
    }
    if case["durations"]:
        lists["lasting"] = [list(map(int, one.token_duration)) for one in found]
    for key, rows in lists.items():
        writer.add_array(f"{name}.{key}", [number for row in rows for number in row])
        writer.add_array(f"{name}.{key}.lengths", [len(row) for row in rows])
    # The logits of the first stream's first frame, after blank and then after each of its tokens.
    state, logits = None, []
    for token in [TOKENS, *lists["tokens"][0]]:
        output, state = predictor.predict(torch.tensor([[token]]), state, add_sos=False, batch_size=1)
        joined = joint.project_encoder(frames[:1, :1]) + joint.project_prednet(output)
        logits.append(joint.joint_net(joined)[0, 0].numpy())
    writer.add_tensor(f"{name}.logits", np.stack(logits).astype(np.float32))


def main() -> None:
    torch.manual_seed(4)
    writer = gguf.GGUFWriter(Path(__file__).parent / "data" / "parakeet_head.gguf", "test")
    for name, case in CASES.items():
        add_case(writer, name, case)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    main()

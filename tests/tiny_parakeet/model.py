"""A cache-aware FastConformer-TDT in plain torch, its parameters named as in NeMo, and a CTC head.

Only what the training and its evaluation need: whole utterances under the mask that a stream would see.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

CONTEXTS = ((70, 13), (70, 6), (70, 1), (70, 0))
"""Frames of 80 ms to the left and to the right: 1.12 s, 560 ms, 160 ms and 80 ms a chunk."""
HALF = bool(torch.cpu.get_capabilities().get("avx512_bf16"))
"""Whether to train with bfloat16: without the processor's help it takes ten times as long."""


@dataclass(frozen=True)
class Config:
    """The model's sizes."""

    vocabulary: int
    mels: int = 80
    width: int = 128
    layers: int = 5
    heads: int = 4
    kernel: int = 9
    channels: int = 32
    predictor: int = 128
    joint: int = 128
    durations: tuple[int, ...] = (0, 1, 2, 3, 4)
    mel_mean: float = -11.0
    mel_deviation: float = 3.5


class StridedConv(nn.Conv2d):
    """A causal convolution that halves time and frequency; `fill` is what lies outside the input."""

    def __init__(self, inputs: int, outputs: int, groups: int, fill: float = 0.0) -> None:
        super().__init__(inputs, outputs, 3, stride=2, groups=groups)
        self.fill = fill

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(functional.pad(x, (2, 1, 2, 1), value=self.fill))


class Subsampling(nn.Module):
    """80 ms frames from 10 ms frames. The mel is normalised here while training: see `fold_normalisation`."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        channels = config.channels
        self.mean, self.deviation = config.mel_mean, config.mel_deviation
        fill = -self.mean / self.deviation
        self.conv = nn.Sequential(
            StridedConv(1, channels, 1, fill),
            nn.ReLU(),
            StridedConv(channels, channels, channels),
            nn.Conv2d(channels, channels, 1),
            nn.ReLU(),
            StridedConv(channels, channels, channels),
            nn.Conv2d(channels, channels, 1),
            nn.ReLU(),
        )
        bands = config.mels
        for _ in range(3):
            bands = bands // 2 + 1
        self.out = nn.Linear(channels * bands, config.width)
        self.conv = self.conv.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # faster

    def forward(self, mel: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """[batch, time, mels] (zero where padded) to [batch, time', width] and its lengths."""
        x = ((mel - self.mean) / self.deviation).unsqueeze(1)
        for layer in self.conv:
            x = layer(x)
            if isinstance(layer, StridedConv):
                lengths = lengths // 2 + 1
            if not isinstance(layer, nn.ReLU):
                x = x * _valid(x.shape[2], lengths)[:, None, :, None].to(x.dtype)
        return self.out(x.transpose(1, 2).flatten(2)), lengths

    def fold_normalisation(self) -> None:
        """Puts mean and deviation into the first convolution, so that it takes the mel as it is."""
        first = self.conv[0]
        assert isinstance(first, StridedConv) and first.bias is not None
        with torch.no_grad():
            first.bias -= first.weight.sum((1, 2, 3)) * self.mean / self.deviation
            first.weight /= self.deviation
        self.mean, self.deviation, first.fill = 0.0, 1.0, 0.0


def _valid(frames: int, lengths: Tensor) -> Tensor:
    """[batch, frames]: true before an utterance's end."""
    return torch.arange(frames)[None] < lengths[:, None]


class FeedForward(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.linear1 = nn.Linear(width, 4 * width, bias=False)
        self.linear2 = nn.Linear(4 * width, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear2(functional.silu(self.linear1(x)))


class Convolution(nn.Module):
    def __init__(self, width: int, kernel: int) -> None:
        super().__init__()
        self.kernel = kernel
        self.pointwise_conv1 = nn.Conv1d(width, 2 * width, 1, bias=False)
        self.depthwise_conv = nn.Conv1d(width, width, kernel, groups=width, bias=False)
        self.batch_norm = nn.LayerNorm(width)  # NeMo keeps the name for a layer norm
        self.pointwise_conv2 = nn.Conv1d(width, width, 1, bias=False)

    def forward(self, x: Tensor, valid: Tensor) -> Tensor:
        x = functional.glu(functional.linear(x, self.pointwise_conv1.weight[..., 0]), -1) * valid[..., None]
        x = self.depthwise_conv(functional.pad(x.transpose(1, 2), (self.kernel - 1, 0))).transpose(1, 2)
        return functional.linear(functional.silu(self.batch_norm(x)), self.pointwise_conv2.weight[..., 0])


class Attention(nn.Module):
    """Relative-position attention with the biases u and v."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        for name in ("linear_q", "linear_k", "linear_v", "linear_out", "linear_pos"):
            setattr(self, name, nn.Linear(width, width, bias=False))
        self.pos_bias_u = nn.Parameter(torch.zeros(heads, width // heads))
        self.pos_bias_v = nn.Parameter(torch.zeros(heads, width // heads))

    def forward(self, x: Tensor, positions: Tensor, visible: Tensor) -> Tensor:
        batch, frames, width = x.shape
        query, key, value = (
            layer(x).view(batch, frames, self.heads, -1)
            for layer in (self.linear_q, self.linear_k, self.linear_v)
        )
        place = self.linear_pos(positions).view(-1, self.heads, width // self.heads)
        content = torch.einsum("bqhd,bkhd->bhqk", query + self.pos_bias_u, key)
        relative = torch.einsum("bqhd,phd->bhqp", query + self.pos_bias_v, place)
        # Row q of `relative` runs over distances frames-1 .. -(frames-1): shift it so that column k is q-k.
        relative = functional.pad(relative, (1, 0)).view(batch, self.heads, 2 * frames, frames)[:, :, 1:]
        relative = relative.reshape(batch, self.heads, frames, 2 * frames - 1)[..., :frames]
        scores = ((content + relative) / math.sqrt(width // self.heads)).masked_fill(~visible[:, None], -1e4)
        weights = torch.softmax(scores, -1).masked_fill(~visible[:, None], 0.0)
        return self.linear_out(torch.einsum("bhqk,bkhd->bqhd", weights, value).reshape(batch, frames, width))


class Layer(nn.Module):
    def __init__(self, config: Config, dropout: float) -> None:
        super().__init__()
        width = config.width
        self.norm_feed_forward1 = nn.LayerNorm(width)
        self.feed_forward1 = FeedForward(width)
        self.norm_self_att = nn.LayerNorm(width)
        self.self_attn = Attention(width, config.heads)
        self.norm_conv = nn.LayerNorm(width)
        self.conv = Convolution(width, config.kernel)
        self.norm_feed_forward2 = nn.LayerNorm(width)
        self.feed_forward2 = FeedForward(width)
        self.norm_out = nn.LayerNorm(width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, positions: Tensor, visible: Tensor, valid: Tensor) -> Tensor:
        x = x + 0.5 * self.dropout(self.feed_forward1(self.norm_feed_forward1(x)))
        x = x + self.dropout(self.self_attn(self.norm_self_att(x), positions, visible))
        x = x + self.dropout(self.conv(self.norm_conv(x), valid))
        x = x + 0.5 * self.dropout(self.feed_forward2(self.norm_feed_forward2(x)))
        return self.norm_out(x)


class Encoder(nn.Module):
    def __init__(self, config: Config, dropout: float) -> None:
        super().__init__()
        self.width = config.width
        self.pre_encode = Subsampling(config)
        self.layers = nn.ModuleList([Layer(config, dropout) for _ in range(config.layers)])
        self.dropout = nn.Dropout(dropout)

    def forward(self, mel: Tensor, lengths: Tensor, context: tuple[int, int]) -> tuple[Tensor, Tensor]:
        """[batch, time, mels] to [batch, time', width] and its lengths; a chunk sees what a stream's does."""
        with torch.autocast("cpu", torch.bfloat16, enabled=self.training and HALF):
            x, lengths = self._encode(mel, lengths, context)
        return x.float(), lengths

    def _encode(self, mel: Tensor, lengths: Tensor, context: tuple[int, int]) -> tuple[Tensor, Tensor]:
        x, lengths = self.pre_encode(mel, lengths)
        frames = x.shape[1]
        valid = _valid(frames, lengths)
        left, right = context
        chunk = torch.arange(frames) // (right + 1)
        behind = chunk[:, None] - chunk[None]
        near = (behind >= 0) & (behind <= left // (right + 1))
        visible = near[None] & valid[:, None, :] & valid[:, :, None]
        positions = self._positions(frames)
        x = self.dropout(x)
        for layer in self.layers:
            x = layer(x, positions, visible, valid)
        return x, lengths

    def _positions(self, frames: int) -> Tensor:
        """[2 frames - 1, width]: sines of the distances from frames - 1 down."""
        distance = torch.arange(frames - 1, -frames, -1, dtype=torch.float)[:, None]
        rates = torch.exp(torch.arange(0, self.width, 2) * -(math.log(10000.0) / self.width))
        return torch.stack([torch.sin(distance * rates), torch.cos(distance * rates)], -1).flatten(1)


class Predictor(nn.Module):
    def __init__(self, config: Config) -> None:
        super().__init__()
        embed = nn.Embedding(config.vocabulary + 1, config.predictor, padding_idx=config.vocabulary)
        nn.init.normal_(embed.weight, 0, 0.1)
        with torch.no_grad():
            embed.weight[config.vocabulary] = 0
        recurrent = nn.Module()
        recurrent.lstm = nn.LSTM(config.predictor, config.predictor, 1)
        self.prediction = nn.ModuleDict({"embed": embed, "dec_rnn": recurrent})

    def forward(
        self, tokens: Tensor, state: tuple[Tensor, Tensor] | None = None
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """[batch, tokens] to [batch, tokens, width] and the state after them."""
        lstm = self.prediction["dec_rnn"].lstm
        output, state = lstm(self.prediction["embed"](tokens).transpose(0, 1), state)
        return output.transpose(0, 1), state


class Joint(nn.Module):
    def __init__(self, config: Config, dropout: float) -> None:
        super().__init__()
        self.pred = nn.Linear(config.predictor, config.joint)
        self.enc = nn.Linear(config.width, config.joint)
        outputs = config.vocabulary + 1 + len(config.durations)
        self.joint_net = nn.Sequential(nn.ReLU(), nn.Dropout(dropout), nn.Linear(config.joint, outputs))

    def forward(self, encoded: Tensor, predicted: Tensor) -> Tensor:
        """[batch, frames, tokens, vocabulary + 1 + durations]."""
        return self.joint_net(self.enc(encoded)[:, :, None] + self.pred(predicted)[:, None])


class Model(nn.Module):
    def __init__(self, config: Config, dropout: float = 0.1) -> None:
        super().__init__()
        self.config = config
        self.encoder = Encoder(config, dropout)
        self.decoder = Predictor(config)
        self.joint = Joint(config, dropout)
        self.ctc_decoder = nn.Module()
        self.ctc_decoder.decoder_layers = nn.Sequential(nn.Conv1d(config.width, config.vocabulary + 1, 1))

    def ctc(self, encoded: Tensor) -> Tensor:
        """[frames, batch, vocabulary + 1]: the auxiliary head's log probabilities."""
        scores = self.ctc_decoder.decoder_layers(encoded.transpose(1, 2))
        return functional.log_softmax(scores.float(), 1).permute(2, 0, 1)

    @torch.no_grad()
    def greedy(self, encoded: Tensor, most: int = 10) -> list[tuple[int, int, int]]:
        """The tokens of one utterance ([frames, width]) by TDT, each with its frame and duration."""
        blank, durations = self.config.vocabulary, self.config.durations
        projected = self.joint.enc(encoded)
        output, state = self.decoder(torch.tensor([[blank]]))
        predicted = self.joint.pred(output[0, 0])
        found: list[tuple[int, int, int]] = []
        frame = emitted = 0
        while frame < len(projected):
            scores = self.joint.joint_net(projected[frame] + predicted)
            token = int(scores[: blank + 1].argmax())
            duration = durations[int(scores[blank + 1 :].argmax())]
            if token == blank:
                frame, emitted = frame + max(duration, 1), 0
                continue
            found.append((token, frame, duration))
            output, state = self.decoder(torch.tensor([[token]]), state)
            predicted = self.joint.pred(output[0, 0])
            emitted += 1
            if duration or emitted >= most:
                frame, emitted = frame + max(duration, 1), 0
        return found

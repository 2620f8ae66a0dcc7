#pragma once

#include "graph/executor.h"
#include "parakeet/batch.h"

namespace stenod::parakeet {

/// Depthwise convolution over time of every span's rows: causal where the span has a cache, which holds what came
/// before; else centred, with zeros on both sides. `x` [width, rows]; returns the same shape, zero in rows of no span.
ggml_tensor* convolve(Graph& graph, const ConformerBlock& block, BlockView& view, ggml_tensor* x);

/// Where a piece of a stream lies, in frames of one stage of the subsampling: only frames from 0 and before `end` are audio.
struct Piece {
    int64_t first = 0;
    int64_t end = 0;
};

/// Pieces of streams as the operations of one stage see them; changes from one computation of a graph to the next.
struct StageView {
    std::vector<Piece> pieces;
    int64_t left = 1;  ///< bands of zeros below the first: 1, or 2 in a causal model
};

/// The first convolution with ReLU: `mel` [bands, 2 * frames + 1, pieces] to [channels, reduced bands, frames, pieces]; zero
/// in frames that are no audio.
ggml_tensor* convolve_mel(Graph& graph, const Subsampling& part, StageView& view, ggml_tensor* mel, int reduced_bands);

/// A depthwise convolution: `x` [channels, bands, 2 * frames + 1, pieces] to [channels, reduced bands, frames, pieces].
ggml_tensor* convolve_channels(Graph& graph, const Subsampling::Separable& part, StageView& view, ggml_tensor* x,
                               int reduced_bands);

/// ReLU(x + bias), zero in frames that are no audio. Overwrites x, [channels, bands, frames, pieces].
ggml_tensor* bias_relu(Graph& graph, ggml_tensor* bias, StageView& view, ggml_tensor* x);

}  // namespace stenod::parakeet

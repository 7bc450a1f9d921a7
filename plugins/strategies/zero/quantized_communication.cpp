#include "quantized_communication.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "shared/wire_format.hpp"

namespace zero {

using namespace strata;
using wire::EncodedNumbers;
using wire::Numbers;
using wire::WireFormat;

namespace {

constexpr int kWeightBits = 8;
constexpr int kGradientBits = 4;

/// All-gathers the pieces, in the order of the ranks.
void gather(ConversionContext& context, std::optional<BlockQuantization> quantization) {
  const PlannedCollective& planned = context.planned();
  const WireFormat format(context, quantization, planned.input_elements);
  const EncodedNumbers own = format.encode({context.input(), planned.dtype, 1});
  format.all_gather(own, planned.axes, {context.output(), planned.dtype, context.mesh().size(planned.axes)});
}

/// Reduce-scatters by all_to_all: each rank sends every piece directly to its owner, which sums. A ring would quantise
/// the partial sum again in every hop. With several axes the innermost one comes first, so that the fewest bytes cross
/// the slowest links. Before each exchange, pieces are in rank order, outermost axis first.
void reduce_scatter(ConversionContext& context, std::optional<BlockQuantization> quantization) {
  const PlannedCollective& planned = context.planned();
  const WireFormat format(context, quantization, planned.output_elements);
  Numbers pieces{context.input(), planned.dtype, context.mesh().size(planned.axes)};
  for (auto axis = planned.axes.rbegin(); axis != planned.axes.rend(); ++axis) {
    const std::int64_t outer = pieces.runs / context.mesh().size(*axis);
    EncodedNumbers encoded = format.encode(pieces);
    if (outer > 1) encoded = format.pack(encoded, *axis);
    pieces = outer > 1 ? format.add_sums(outer) : Numbers{context.output(), planned.dtype, 1};
    format.add_up(format.all_to_all(encoded, *axis), pieces);
  }
}

}  // namespace

QuantizedCommunication::QuantizedCommunication(const QuantizationSettings& settings, std::vector<MeshAxis> own,
                                               std::vector<Axis> storage)
    : settings_(settings), own_(std::move(own)), storage_(std::move(storage)) {}

bool QuantizedCommunication::is_over_storage(const std::vector<Axis>& axes) const {
  return std::all_of(axes.begin(), axes.end(), [this](const Axis& axis) {
    return std::find(storage_.begin(), storage_.end(), axis) != storage_.end();
  });
}

bool QuantizedCommunication::claims(const PlannedCollective& collective) const {
  const std::vector<Axis>& axes = collective.axes;
  if (!is_over_storage(axes)) return false;
  if (collective.kind == CollectiveKind::reduce_scatter) {
    return settings_.gradients && collective.content == BufferKind::gradient;
  }
  // A gather from secondary pieces stays as it is. It stays within a node, and it yields the values that the forward
  // pass used.
  const bool from_storage = std::all_of(own_.begin(), own_.end(), [&](const MeshAxis& axis) {
    return axis.size == 1 || std::find(axes.begin(), axes.end(), axis.name) != axes.end();
  });
  return settings_.weights && from_storage && collective.kind == CollectiveKind::all_gather &&
         collective.content == BufferKind::parameter && is_floating_point(collective.dtype);
}

void QuantizedCommunication::convert(ConversionContext& context) const {
  const bool exact = settings_.off || (settings_.spares_f64 && context.planned().dtype == DType::f64);
  const auto quantization = [&](int bits) {
    return exact ? std::nullopt : std::optional(BlockQuantization{bits, settings_.block});
  };
  if (context.planned().kind == CollectiveKind::all_gather) {
    gather(context, quantization(kWeightBits));
  } else {
    reduce_scatter(context, quantization(kGradientBits));
  }
}

}  // namespace zero

#include "quantized_exchange.hpp"

#include "shared/wire_format.hpp"

namespace localsgd {

using namespace strata;

namespace {

/// Numbers that share a scale.
constexpr std::int64_t kBlock = 256;

void exchange(ConversionContext& context, int bits) {
  const PlannedCollective& planned = context.planned();
  const wire::WireFormat format(context, BlockQuantization{bits, kBlock}, planned.input_elements);
  const wire::EncodedNumbers own = format.encode({context.input(), planned.dtype, 1});
  const std::int64_t replicas = context.mesh().size(planned.axes);
  format.add_up(format.gather(own, planned.axes, replicas), {context.output(), planned.dtype, 1});
}

}  // namespace

Conversion quantized_exchange(const Settings& settings, const PlannedCollective& collective) {
  const bool is_exchange = collective.kind == CollectiveKind::all_reduce &&
                           collective.content == BufferKind::gradient &&
                           collective.axes == std::vector<Axis>{settings.axis};
  if (!is_exchange || settings.bits == 0) return {};
  if (collective.dtype == DType::f64 && settings.spares_f64) return {};
  return [bits = settings.bits](ConversionContext& context) { exchange(context, bits); };
}

}  // namespace localsgd

#include "weight_blocks.hpp"

#include <cmath>
#include <limits>
#include <sstream>

#include "strata/error.hpp"
#include "strata/tensor.hpp"

namespace strata {
namespace {

constexpr std::string_view kNames[] = {"int8", "nf4"};

/// The position of the attribute "along" among the dims of the attribute "result".
std::size_t position_along(const OpInstance& instance) {
  std::istringstream words(instance.attributes.word("result"));
  const std::string along = instance.attributes.word("along");
  std::size_t position = 0;
  for (std::string dim; words >> dim; ++position) {
    if (dim == along) return position;
  }
  throw VerificationError("op " + instance.op + " '" + instance.name + "': the result has no dimension '" + along +
                          "'");
}

/// The numbers halfway between neighbouring ones of nf4.
constexpr std::array<double, 15> kHalfways = [] {
  std::array<double, 15> halfways{};
  for (std::size_t i = 0; i < halfways.size(); ++i) {
    halfways[i] = (static_cast<double>(kNormalFloat4[i]) + static_cast<double>(kNormalFloat4[i + 1])) / 2;
  }
  return halfways;
}();

/// The bits of the code of `number`, which is in [-1, 1].
std::uint8_t nearest_code(WeightCode code, double number) {
  if (code == WeightCode::int8) return static_cast<std::uint8_t>(static_cast<int>(std::nearbyint(number * 127)));
  // Without branches, which a processor could not predict.
  int below = 0;
  for (const double halfway : kHalfways) below += halfway < number ? 1 : 0;
  return static_cast<std::uint8_t>(below);
}

/// The largest magnitude, or NaN if a number is not finite.
float scale_of(std::span<const float> weight, std::int64_t begin, std::int64_t count, std::int64_t stride) {
  float largest = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const float magnitude = std::abs(weight[static_cast<std::size_t>(begin + i * stride)]);
    if (!std::isfinite(magnitude)) return std::numeric_limits<float>::quiet_NaN();
    largest = std::max(largest, magnitude);
  }
  return largest;
}

/// Calls `visit` with each number's index, the index of its scale, and the index and half of its code.
template <class Visit>
void each_number(const BlockedWeight& shape, const Visit& visit) {
  const WeightBlocks& blocks = shape.blocks;
  for (std::int64_t o = 0; o < shape.outer; ++o) {
    for (std::int64_t i = 0; i < shape.length; ++i) {
      const CodePlace place = code_place(blocks, shape.length, i);
      const std::int64_t number = (o * shape.length + i) * shape.inner;
      const std::int64_t scale = (o * blocks.scales(shape.length) + i / blocks.size) * shape.inner;
      const std::int64_t byte = (o * blocks.bytes(shape.length) + place.byte) * shape.inner;
      for (std::int64_t k = 0; k < shape.inner; ++k) {
        visit(static_cast<std::size_t>(number + k), static_cast<std::size_t>(scale + k),
              static_cast<std::size_t>(byte + k), place.is_upper);
      }
    }
  }
}

}  // namespace

std::string_view to_string(WeightCode code) { return kNames[static_cast<std::size_t>(code)]; }

WeightBlocks WeightBlocks::from(const Attributes& attributes) {
  WeightBlocks blocks;
  const std::string code = attributes.word("code");
  if (code != to_string(WeightCode::int8) && code != to_string(WeightCode::nf4)) {
    throw VerificationError("weights in the code '" + code + "'; accepted: int8, nf4");
  }
  blocks.code = code == to_string(WeightCode::int8) ? WeightCode::int8 : WeightCode::nf4;
  blocks.size = attributes.integer("block");
  if (blocks.size < 1 || (blocks.code == WeightCode::nf4 && blocks.size % 2 != 0)) {
    throw VerificationError("weights in blocks of " + std::to_string(blocks.size) +
                            "; accepted: 1 or more, an even number for nf4");
  }
  return blocks;
}

void WeightBlocks::add_to(Attributes& attributes) const {
  attributes.set("code", std::string(to_string(code)));
  attributes.set("block", size);
}

BlockedWeight::BlockedWeight(const WeightBlocks& blocks, const Shape& shape, std::size_t along)
    : blocks(blocks),
      outer(element_count(Shape(shape.begin(), shape.begin() + static_cast<std::ptrdiff_t>(along)))),
      length(shape.at(along)),
      inner(element_count(Shape(shape.begin() + static_cast<std::ptrdiff_t>(along) + 1, shape.end()))) {}

BlockedWeight BlockedWeight::from(const OpInstance& instance) {
  const BlockedWeight weight(WeightBlocks::from(instance.attributes), instance.results.at(0).shape,
                             position_along(instance));
  const std::int64_t codes = element_count(instance.operands.at(0).shape);
  const std::int64_t scales = element_count(instance.operands.at(1).shape);
  if (codes == weight.bytes() && scales == weight.scales()) return weight;
  throw VerificationError("op " + instance.op + " '" + instance.name + "': a weight of " +
                          std::to_string(weight.elements()) + " numbers has " + std::to_string(weight.bytes()) +
                          " bytes of codes and " + std::to_string(weight.scales()) + " scales; found " +
                          std::to_string(codes) + " and " + std::to_string(scales));
}

std::optional<std::string> BlockedWeight::mismatch(const OpInstance& instance) {
  try {
    static_cast<void>(from(instance));
    return std::nullopt;
  } catch (const VerificationError& error) {
    return error.what();
  }
}

std::vector<float> weight_scales(const BlockedWeight& shape, std::span<const float> weight) {
  std::vector<float> scales;
  scales.reserve(static_cast<std::size_t>(shape.scales()));
  const std::int64_t size = shape.blocks.size;
  for (std::int64_t o = 0; o < shape.outer; ++o) {
    for (std::int64_t begin = 0; begin < shape.length; begin += size) {
      const std::int64_t count = std::min(size, shape.length - begin);
      for (std::int64_t k = 0; k < shape.inner; ++k) {
        const std::int64_t first = (o * shape.length + begin) * shape.inner + k;
        scales.push_back(scale_of(weight, first, count, shape.inner));
      }
    }
  }
  return scales;
}

EncodedWeight encode_weight(const BlockedWeight& shape, std::span<const float> weight) {
  EncodedWeight encoded{std::vector<std::int8_t>(static_cast<std::size_t>(shape.bytes())),
                        weight_scales(shape, weight)};
  each_number(shape, [&](std::size_t number, std::size_t scale, std::size_t byte, bool is_upper) {
    const double largest = encoded.scales[scale];
    const double relative = largest > 0 ? weight[number] / largest : 0;  // NaN is not above 0
    const unsigned code = nearest_code(shape.blocks.code, relative);
    const unsigned known = static_cast<std::uint8_t>(encoded.codes[byte]);
    encoded.codes[byte] = static_cast<std::int8_t>(is_upper ? known | code << 4U : code);
  });
  return encoded;
}

void decode_weight(const BlockedWeight& shape, std::span<const std::int8_t> codes, std::span<const float> scales,
                   std::span<float> weight) {
  each_number(shape, [&](std::size_t number, std::size_t scale, std::size_t byte, bool is_upper) {
    weight[number] = static_cast<float>(scales[scale] * coded_number(shape.blocks.code, codes[byte], is_upper));
  });
}

}  // namespace strata

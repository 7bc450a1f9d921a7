#include "ops/op_case_variants.hpp"

/// \file
/// Ops of images.

namespace strata::testing {
namespace {

/// A convolution of 3 x 3 over odd sizes, with the sizes of its result.
const DimSizes kImageSizes = {{"batch", 2}, {"channels", 3}, {"planes", 5}, {"height", 7},   {"width", 6},
                              {"rows", 3},  {"columns", 3},  {"out", 7},    {"out_width", 6}};
const Dims kImages = {"batch", "channels", "height", "width"};
const Dims kWindows = {"planes", "channels", "rows", "columns"};
const Dims kConvolved = {"batch", "planes", "out", "out_width"};

struct WindowShape {
  std::string name;
  std::int64_t size;
  std::int64_t stride;
  std::int64_t padding;
  std::int64_t channels = 3;
  std::int64_t planes = 5;
};

/// The convolution and its gradients.
std::vector<OpCase> convolutions(const WindowShape& window) {
  DimSizes sizes = kImageSizes;
  sizes["rows"] = sizes["columns"] = window.size;
  sizes["channels"] = window.channels;
  sizes["planes"] = window.planes;
  sizes["out"] = (sizes["height"] + 2 * window.padding - window.size) / window.stride + 1;
  sizes["out_width"] = (sizes["width"] + 2 * window.padding - window.size) / window.stride + 1;
  const auto row = [&](const std::string& op, const Dims& first, const Dims& second, const Dims& result) {
    return OpCase{.name = op + "_" + window.name,
                  .op = op,
                  .sizes = sizes,
                  .operands = {{first}, {second}},
                  .attributes = {{"stride", window.stride}, {"padding", window.padding}, {"result", join(result)}}};
  };
  OpCase forward = row("convolution", kImages, kWindows, kConvolved);
  forward.differentiable = true;
  const OpCase weight = row("convolution_weight_gradient", kImages, kConvolved, kWindows);
  return {forward,
          with_accumulate(forward),
          row("convolution_input_gradient", kConvolved, kWindows, kImages),
          weight,
          with_accumulate(weight),
          with_f32_result(weight),
          with_accumulate(with_f32_result(weight))};
}

}  // namespace

std::vector<OpCase> image_cases() {
  std::vector<OpCase> cases;
  append(cases, convolutions({"same", 3, 1, 1}));
  append(cases, convolutions({"halved", 3, 2, 1}));
  append(cases, convolutions({"of_patches", 2, 2, 0}));
  append(cases, convolutions({"of_points", 1, 2, 0}));
  append(cases, convolutions({"of_blocks", 3, 1, 1, 32, 16}));
  return cases;
}

}  // namespace strata::testing

#include "ops/op_case_variants.hpp"

/// \file
/// Ops of images: convolutions, batch norm and pooling.

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
std::vector<OpCase> convolutions(const WindowShape& window, DimSizes sizes = kImageSizes) {
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
  forward.differentiable = sizes["batch"] < 100;
  const OpCase input = row("convolution_input_gradient", kConvolved, kWindows, kImages);
  OpCase weight = row("convolution_weight_gradient", kImages, kConvolved, kWindows);
  if (sizes["batch"] >= 100) weight.tolerance = 4e-6;
  OpCase weight_in_f32 = with_f32_result(weight);
  // A sum of n products of 16 bits may be off by n · 2⁻²⁴ if matrix units truncate: 27,000 pixels give 1.6e-3 at most.
  if (sizes["batch"] >= 100) weight_in_f32.tolerance = 1e-4;
  return {forward, with_accumulate(forward), input,         with_accumulate(input),
          weight,  with_accumulate(weight),  weight_in_f32, with_accumulate(weight_in_f32)};
}

/// Batch norm's pieces and their gradient, over images and over rows of features.
std::vector<OpCase> batch_norms(const std::string& name, const Dims& x, const DimSizes& sizes) {
  double count = 1;
  for (const Dim& dim : x) count *= dim == "channels" ? 1 : static_cast<double>(sizes.at(dim));
  const CaseOperand values{x};
  const CaseOperand of_channel = full({"channels"});
  const CaseOperand positive = full({"channels"}, Fill::positive);
  CaseOperand running = positive;
  running.trained = false;
  const auto row = [&](const std::string& op, std::vector<CaseOperand> operands) {
    return OpCase{.name = op + "_" + name,
                  .op = op,
                  .sizes = sizes,
                  .operands = std::move(operands),
                  .attributes = {{"epsilon", 1e-5},
                                 {"count", count},
                                 {"channels", std::string("channels")},
                                 {"factor", 0.1 * count / (count - 1)},
                                 {"momentum", 0.1}}};
  };
  OpCase whole = row("batch_norm", {values, positive, of_channel, running, running});
  whole.attributes = {{"epsilon", 1e-5}, {"momentum", 0.1}};
  whole.on_devices = false;
  whole.differentiable = x == kImages && count < 1000;
  const OpCase normalize = row("batch_normalize", {values, of_channel, of_channel, of_channel, positive});
  const OpCase sums = row("batch_norm_sums", {values, values, of_channel, positive});
  const OpCase input =
      row("batch_norm_input_gradient", {values, values, of_channel, of_channel, positive, of_channel, of_channel});
  return {whole,
          row("batch_mean", {values}),
          row("batch_variance", {values, of_channel}),
          row("statistic_change", {positive, of_channel}),
          with_accumulate(row("statistic_change", {positive, of_channel})),
          normalize,
          with_in_place(normalize, 0),
          sums,
          with_accumulate(sums),
          input,
          with_in_place(input, 0),
          with_accumulate(input)};
}

std::vector<OpCase> pools(const std::string& name, const DimSizes& sizes, const WindowShape& window) {
  const auto row = [&](const std::string& op, std::vector<CaseOperand> operands, const Dims& result) {
    return OpCase{
        .name = op + "_" + name,
        .op = op,
        .sizes = sizes,
        .operands = std::move(operands),
        .attributes = {
            {"size", window.size}, {"stride", window.stride}, {"padding", window.padding}, {"result", join(result)}}};
  };
  const Dims pooled = {"batch", "channels", "out", "out_width"};
  // The steps of differences do not make another pixel the largest.
  OpCase forward = row("max_pool", {{kImages, Fill::distinct}}, pooled);
  forward.differentiable = true;
  const OpCase gradient = row("max_pool_gradient", {{pooled}, {kImages}}, kImages);
  return {forward, gradient, with_accumulate(gradient)};
}

}  // namespace

std::vector<OpCase> image_cases() {
  std::vector<OpCase> cases;
  append(cases, batch_norms("of_images", kImages, kImageSizes));
  append(cases, batch_norms("of_rows", {"batch", "channels"}, kImageSizes));
  DimSizes large = kImageSizes;
  large["batch"] = 9;
  large["channels"] = 37;
  large["height"] = 31;
  append(cases, batch_norms("of_large_images", kImages, large));
  DimSizes pooled = kImageSizes;
  pooled["out"] = 4;
  pooled["out_width"] = 3;
  append(cases, pools("overlapping", pooled, {"", 3, 2, 1}));
  pooled["out"] = 3;
  append(cases, pools("apart", pooled, {"", 2, 2, 0}));
  append(cases, convolutions({"same", 3, 1, 1}));
  append(cases, convolutions({"halved", 3, 2, 1}));
  append(cases, convolutions({"of_patches", 2, 2, 0}));
  append(cases, convolutions({"of_points", 1, 2, 0}));
  append(cases, convolutions({"of_blocks", 3, 1, 1, 32, 16}));
  append(cases, convolutions({"of_halved_blocks", 3, 2, 1, 8, 72}));
  append(cases, convolutions({"of_block_points", 1, 2, 0, 16, 8}));
  append(cases, convolutions({"of_far_blocks", 2, 3, 1, 40, 8}));
  DimSizes square = kImageSizes;
  square["height"] = square["width"] = 16;
  append(cases, convolutions({"of_square_points", 1, 1, 0}, square));
  append(cases, convolutions({"of_squares", 3, 1, 1}, square));
  append(cases, convolutions({"of_square_blocks", 3, 1, 1, 8, 136}, square));
  // More columns than the cuda device packs at once on an emulated GPU.
  square["batch"] = 107;
  append(cases, convolutions({"of_many_squares", 5, 1, 2, 2, 1}, square));
  append(cases, convolutions({"of_many_images", 5, 1, 1, 2, 1}, square));
  return cases;
}

}  // namespace strata::testing

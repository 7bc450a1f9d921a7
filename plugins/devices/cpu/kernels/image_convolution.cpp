#include "kernels/image_convolution.hpp"

#include <array>
#include <optional>
#include <stdexcept>
#include <string>
#include <unordered_map>

#include "kernels/onednn.hpp"

namespace strata::cpu {
namespace {

using Dims = dnnl::memory::dims;
using Tag = dnnl::memory::format_tag;

constexpr std::size_t kAlignment = 64;

/// A tensor as callers have it, and as oneDNN wants it.
struct Tensor {
  Tensor(const dnnl::memory::desc& own, const dnnl::memory::desc& wanted)
      : plain(own, one_dnn_engine(), nullptr), blocked(wanted, one_dnn_engine(), nullptr), is_copied(own != wanted) {}

  dnnl::memory plain;
  dnnl::memory blocked;
  bool is_copied;
};

dnnl::memory::desc desc(const Dims& dims, Element element, Tag tag) {
  using DataType = dnnl::memory::data_type;
  return {dims, element == Element::bf16 ? DataType::bf16 : DataType::f32, tag};
}

}  // namespace

struct ImageConvolution::State {
  State(const ConvolutionShape& wanted, int thread_count)
      : shape(wanted),
        threads(thread_count),
        x_dims{shape.batch, shape.channels, shape.height, shape.width},
        w_dims{shape.out_channels, shape.channels, shape.rows, shape.columns},
        y_dims{shape.batch, shape.out_channels, shape.out_height, shape.out_width} {
    const OneDnnThreads scope(threads);
    dnnl::primitive_attr attributes;
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    const Dims strides{shape.stride, shape.stride};
    const Dims padding{shape.padding, shape.padding};
    constexpr auto kAlgorithm = dnnl::algorithm::convolution_direct;
    using Result = ConvolutionShape::Result;
    const auto operand = [&](const Dims& dims) { return desc(dims, shape.operand, Tag::any); };
    const auto result = [&](const Dims& dims) { return desc(dims, computed_result(), Tag::any); };
    const auto x = operand(x_dims);
    const auto w = operand(w_dims);
    const auto y = shape.result == Result::y ? result(y_dims) : operand(y_dims);
    // The gradients take it as a hint.
    const dnnl::convolution_forward::primitive_desc forward(
        {dnnl::prop_kind::forward_training, kAlgorithm, x, w, y, strides, padding, padding}, attributes,
        one_dnn_engine());
    if (shape.result == Result::y) {
      add(DNNL_ARG_SRC, x_dims, forward.src_desc());
      add(DNNL_ARG_WEIGHTS, w_dims, forward.weights_desc());
      add(DNNL_ARG_DST, y_dims, forward.dst_desc());
      finish<dnnl::convolution_forward>(forward);
    } else if (shape.result == Result::dx) {
      const dnnl::convolution_backward_data::primitive_desc gradient(
          {kAlgorithm, result(x_dims), w, y, strides, padding, padding}, attributes, one_dnn_engine(), forward);
      add(DNNL_ARG_DIFF_DST, y_dims, gradient.diff_dst_desc());
      add(DNNL_ARG_WEIGHTS, w_dims, gradient.weights_desc());
      add(DNNL_ARG_DIFF_SRC, x_dims, gradient.diff_src_desc());
      finish<dnnl::convolution_backward_data>(gradient);
    } else {
      const dnnl::convolution_backward_weights::primitive_desc gradient(
          {kAlgorithm, x, result(w_dims), y, strides, padding, padding}, attributes, one_dnn_engine(), forward);
      add(DNNL_ARG_SRC, x_dims, gradient.src_desc());
      add(DNNL_ARG_DIFF_DST, y_dims, gradient.diff_dst_desc());
      add(DNNL_ARG_DIFF_WEIGHTS, w_dims, gradient.diff_weights_desc());
      finish<dnnl::convolution_backward_weights>(gradient);
    }
  }

  /// The type in which oneDNN writes the result. A sum is rounded once, so it needs a term in f32.
  [[nodiscard]] Element computed_result() const { return shape.accumulate ? Element::f32 : shape.result_element; }

  /// Adds the next tensor: the operands in their order, then the result.
  void add(int argument, const Dims& dims, const dnnl::memory::desc& wanted) {
    std::optional<Tensor>& tensor = tensors.at(count++);
    const bool is_result = count == tensors.size();
    tensor.emplace(desc(dims, is_result ? shape.result_element : shape.operand, Tag::abcd), wanted);
    // A sum needs the result of its own.
    if (is_result && shape.accumulate) tensor->is_copied = true;
    if (tensor->is_copied) reserve(tensor->blocked.get_desc());
    arguments.emplace(argument, tensor->blocked);
  }

  template <class Primitive, class Description>
  void finish(const Description& description) {
    primitive = Primitive(description);
    implementation = description.impl_info_str();
    scratchpad.emplace(description.scratchpad_desc(), one_dnn_engine(), nullptr);
    reserve(description.scratchpad_desc());
    arguments.emplace(DNNL_ARG_SCRATCHPAD, *scratchpad);
    Tensor& result = *tensors.back();
    dnnl::primitive_attr sum;
    if (shape.accumulate) {
      dnnl::post_ops operations;
      operations.append_sum(1.0F);
      sum.set_post_ops(operations);
    }
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      Tensor& tensor = *tensors.at(i);
      if (!tensor.is_copied) continue;
      const bool is_result = &tensor == &result;
      copies.at(i) =
          is_result ? dnnl::reorder(tensor.blocked, tensor.plain, sum) : dnnl::reorder(tensor.plain, tensor.blocked);
    }
  }

  void reserve(const dnnl::memory::desc& desc) {
    bytes += (desc.get_size() + kAlignment - 1) / kAlignment * kAlignment;
  }

  void run(const std::array<void*, 3>& data, char* workspace) {
    const OneDnnThreads scope(threads);
    const auto take = [&](dnnl::memory& memory) {
      memory.set_data_handle(workspace);
      workspace += (memory.get_desc().get_size() + kAlignment - 1) / kAlignment * kAlignment;
    };
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      Tensor& tensor = *tensors.at(i);
      tensor.plain.set_data_handle(data.at(i));
      if (tensor.is_copied) {
        take(tensor.blocked);
      } else {
        tensor.blocked.set_data_handle(data.at(i));
      }
    }
    take(*scratchpad);
    for (std::size_t i = 0; i + 1 < tensors.size(); ++i) {
      if (tensors.at(i)->is_copied) copies.at(i).execute(stream, tensors.at(i)->plain, tensors.at(i)->blocked);
    }
    primitive.execute(stream, arguments);
    if (Tensor& result = *tensors.back(); result.is_copied) copies.back().execute(stream, result.blocked, result.plain);
    stream.wait();
  }

  ConvolutionShape shape;
  int threads;
  Dims x_dims;
  Dims w_dims;
  Dims y_dims;
  std::array<std::optional<Tensor>, 3> tensors;
  std::array<dnnl::reorder, 3> copies;
  std::size_t count = 0;
  std::optional<dnnl::memory> scratchpad;
  dnnl::primitive primitive;
  std::string implementation;
  std::unordered_map<int, dnnl::memory> arguments;
  std::size_t bytes = 0;
  dnnl::stream stream{one_dnn_engine()};
};

ImageConvolution::ImageConvolution(const ConvolutionShape& shape, int threads) {
  try {
    state_ = std::make_unique<State>(shape, threads);
  } catch (const dnnl::error& error) {
    throw std::runtime_error("oneDNN cannot convolve " + std::to_string(shape.height) + " x " +
                             std::to_string(shape.width) + " pixels: " + error.what());
  }
}

ImageConvolution::~ImageConvolution() = default;

bool ImageConvolution::is_native() const {
  const auto has = [&](const char* isa) { return state_->implementation.find(isa) != std::string::npos; };
  return state_->shape.operand == Element::f32 || has("avx512_core_bf16") || has("amx");
}

std::int64_t ImageConvolution::workspace_bytes() const { return static_cast<std::int64_t>(state_->bytes); }

void ImageConvolution::run(const void* first, const void* second, void* result, void* workspace) const {
  // oneDNN's handles are not const, although inputs are only read.
  state_->run({const_cast<void*>(first), const_cast<void*>(second), result}, static_cast<char*>(workspace));
}

}  // namespace strata::cpu

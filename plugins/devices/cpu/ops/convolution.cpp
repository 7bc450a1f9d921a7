#include <array>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <unordered_map>

#include "cpu_kernel.hpp"
#include "kernels/onednn.hpp"
#include "kernels/vector_kernels.hpp"

namespace strata::cpu {
namespace {

using devices::Pass;

/// A convolution or one of its gradients by oneDNN, prepared once and run often. Results are equal in all runs with the
/// same number of threads. Only one thread at a time may run an object.
class ImageConvolution {
 public:
  /// The types are f32 or bf16, and that of the result is f32 or that of the operands. `accumulate`: run() adds to the
  /// result. \throws std::runtime_error if oneDNN does not support the convolution.
  ImageConvolution(const OpInstance& op, Pass pass, Element operand, Element result, bool accumulate, int threads)
      : operand_(operand), result_(result), accumulate_(accumulate), threads_(threads) {
    const Shape& x = pass == Pass::input_gradient ? op.results[0].shape : op.operands[0].shape;
    const Shape& w = pass == Pass::weight_gradient ? op.results[0].shape : op.operands[1].shape;
    const Shape& y =
        pass == Pass::forward ? op.results[0].shape : op.operands[pass == Pass::input_gradient ? 0 : 1].shape;
    try {
      prepare(pass, x, w, y, op.attributes.integer("stride"), op.attributes.integer("padding"));
    } catch (const dnnl::error& error) {
      throw std::runtime_error("oneDNN cannot convolve " + std::to_string(x[2]) + " x " + std::to_string(x[3]) +
                               " pixels: " + error.what());
    }
  }

  /// True if oneDNN computes with instructions for the operands' type. If not, its bf16 convolutions are slower than
  /// those of copies in f32.
  [[nodiscard]] bool is_native() const {
    const auto has = [&](const char* isa) { return implementation_.find(isa) != std::string::npos; };
    return operand_ == Element::f32 || has("avx512_core_bf16") || has("amx");
  }

  /// Bytes of scratch memory for run(): oneDNN computes with blocks of channels, so tensors are copied to that order.
  [[nodiscard]] std::int64_t workspace_bytes() const { return bytes_; }

  void run(const void* first, const void* second, void* result, void* workspace) {
    const OneDnnThreads scope(threads_);
    char* scratch = static_cast<char*>(workspace);
    const auto take = [&](dnnl::memory& memory) {
      memory.set_data_handle(scratch);
      scratch += aligned_size(memory.get_desc());
    };
    // oneDNN's handles are not const, although inputs are only read.
    const std::array<void*, 3> data{const_cast<void*>(first), const_cast<void*>(second), result};
    for (std::size_t i = 0; i < tensors_.size(); ++i) {
      Tensor& tensor = *tensors_.at(i);
      tensor.plain.set_data_handle(data.at(i));
      if (tensor.is_copied) {
        take(tensor.blocked);
      } else {
        tensor.blocked.set_data_handle(data.at(i));
      }
    }
    take(*scratchpad_);
    for (std::size_t i = 0; i + 1 < tensors_.size(); ++i) {
      if (tensors_.at(i)->is_copied) copies_.at(i).execute(stream_, tensors_.at(i)->plain, tensors_.at(i)->blocked);
    }
    primitive_.execute(stream_, arguments_);
    if (Tensor& last = *tensors_.back(); last.is_copied) copies_.back().execute(stream_, last.blocked, last.plain);
    stream_.wait();
  }

 private:
  using Tag = dnnl::memory::format_tag;

  /// A tensor as callers have it, and as oneDNN wants it.
  struct Tensor {
    Tensor(const dnnl::memory::desc& own, const dnnl::memory::desc& wanted)
        : plain(own, one_dnn_engine(), nullptr), blocked(wanted, one_dnn_engine(), nullptr), is_copied(own != wanted) {}

    dnnl::memory plain;
    dnnl::memory blocked;
    bool is_copied;
  };

  static dnnl::memory::desc desc(const Shape& shape, Element element, Tag tag) {
    using DataType = dnnl::memory::data_type;
    return {shape, element == Element::bf16 ? DataType::bf16 : DataType::f32, tag};
  }

  static std::int64_t aligned_size(const dnnl::memory::desc& desc) {
    constexpr std::size_t kAlignment = 64;
    return static_cast<std::int64_t>((desc.get_size() + kAlignment - 1) / kAlignment * kAlignment);
  }

  void prepare(Pass pass, const Shape& x_shape, const Shape& w_shape, const Shape& y_shape, std::int64_t stride,
               std::int64_t padded) {
    const OneDnnThreads scope(threads_);
    dnnl::primitive_attr attributes;
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    const Shape strides{stride, stride};
    const Shape padding{padded, padded};
    constexpr auto kAlgorithm = dnnl::algorithm::convolution_direct;
    const auto operand = [&](const Shape& shape) { return desc(shape, operand_, Tag::any); };
    // A sum is rounded once, so it needs a term in f32.
    const auto result = [&](const Shape& shape) { return desc(shape, accumulate_ ? Element::f32 : result_, Tag::any); };
    const auto x = operand(x_shape);
    const auto w = operand(w_shape);
    const auto y = pass == Pass::forward ? result(y_shape) : operand(y_shape);
    // The gradients take it as a hint.
    const dnnl::convolution_forward::primitive_desc forward(
        {dnnl::prop_kind::forward_training, kAlgorithm, x, w, y, strides, padding, padding}, attributes,
        one_dnn_engine());
    if (pass == Pass::forward) {
      add(DNNL_ARG_SRC, x_shape, forward.src_desc());
      add(DNNL_ARG_WEIGHTS, w_shape, forward.weights_desc());
      add(DNNL_ARG_DST, y_shape, forward.dst_desc());
      finish<dnnl::convolution_forward>(forward);
    } else if (pass == Pass::input_gradient) {
      const dnnl::convolution_backward_data::primitive_desc gradient(
          {kAlgorithm, result(x_shape), w, y, strides, padding, padding}, attributes, one_dnn_engine(), forward);
      add(DNNL_ARG_DIFF_DST, y_shape, gradient.diff_dst_desc());
      add(DNNL_ARG_WEIGHTS, w_shape, gradient.weights_desc());
      add(DNNL_ARG_DIFF_SRC, x_shape, gradient.diff_src_desc());
      finish<dnnl::convolution_backward_data>(gradient);
    } else {
      const dnnl::convolution_backward_weights::primitive_desc gradient(
          {kAlgorithm, x, result(w_shape), y, strides, padding, padding}, attributes, one_dnn_engine(), forward);
      add(DNNL_ARG_SRC, x_shape, gradient.src_desc());
      add(DNNL_ARG_DIFF_DST, y_shape, gradient.diff_dst_desc());
      add(DNNL_ARG_DIFF_WEIGHTS, w_shape, gradient.diff_weights_desc());
      finish<dnnl::convolution_backward_weights>(gradient);
    }
  }

  /// Adds the next tensor: the operands in their order, then the result.
  void add(int argument, const Shape& shape, const dnnl::memory::desc& wanted) {
    std::optional<Tensor>& tensor = tensors_.at(count_++);
    const bool is_result = count_ == tensors_.size();
    tensor.emplace(desc(shape, is_result ? result_ : operand_, Tag::abcd), wanted);
    // A sum needs the result of its own.
    if (is_result && accumulate_) tensor->is_copied = true;
    if (tensor->is_copied) bytes_ += aligned_size(tensor->blocked.get_desc());
    arguments_.emplace(argument, tensor->blocked);
  }

  template <class Primitive, class Description>
  void finish(const Description& description) {
    primitive_ = Primitive(description);
    implementation_ = description.impl_info_str();
    scratchpad_.emplace(description.scratchpad_desc(), one_dnn_engine(), nullptr);
    bytes_ += aligned_size(description.scratchpad_desc());
    arguments_.emplace(DNNL_ARG_SCRATCHPAD, *scratchpad_);
    dnnl::primitive_attr sum;
    if (accumulate_) {
      dnnl::post_ops operations;
      operations.append_sum(1.0F);
      sum.set_post_ops(operations);
    }
    for (std::size_t i = 0; i < tensors_.size(); ++i) {
      Tensor& tensor = *tensors_.at(i);
      if (!tensor.is_copied) continue;
      const bool is_result = i + 1 == tensors_.size();
      copies_.at(i) =
          is_result ? dnnl::reorder(tensor.blocked, tensor.plain, sum) : dnnl::reorder(tensor.plain, tensor.blocked);
    }
  }

  Element operand_;
  Element result_;
  bool accumulate_;
  int threads_;
  std::array<std::optional<Tensor>, 3> tensors_;
  std::array<dnnl::reorder, 3> copies_;
  std::size_t count_ = 0;
  std::optional<dnnl::memory> scratchpad_;
  dnnl::primitive primitive_;
  std::string implementation_;
  std::unordered_map<int, dnnl::memory> arguments_;
  std::int64_t bytes_ = 0;
  dnnl::stream stream_{one_dnn_engine()};
};

/// A convolution of bf16 operands by the processor's instructions for bf16. Null if it has none, or if the types are
/// other ones.
std::shared_ptr<ImageConvolution> bf16_convolution(const OpInstance& op, Pass pass, int threads) {
  const bool has_bf16 = op.operands[0].dtype == DType::bf16 && op.operands[1].dtype == DType::bf16;
  if (!has_bf16 || op.results[0].dtype == DType::f16) return nullptr;
  try {
    const auto convolution = std::make_shared<ImageConvolution>(
        op, pass, Element::bf16, element_of(op.results[0].dtype), op.accumulate, threads);
    return convolution->is_native() ? convolution : nullptr;
  } catch (const std::runtime_error&) {
    return nullptr;  // oneDNN has no bf16 on this processor
  }
}

/// A convolution whose operands and result may be shorter than f32. oneDNN gets copies in f32 of those.
class ConvertedConvolution {
 public:
  ConvertedConvolution(const OpInstance& op, Pass pass, const CpuEnvironment& environment)
      : op_(op),
        environment_(environment),
        convolution_(op, pass, Element::f32, Element::f32, op.accumulate && op.results[0].dtype == DType::f32,
                     environment.threads()),
        offsets_{reserve(op.operands[0]), reserve(op.operands[1]), reserve(op.results[0]),
                 plan_.reserve(convolution_.workspace_bytes())} {}

  [[nodiscard]] std::int64_t workspace_bytes() const { return plan_.bytes(); }

  void run(const KernelArguments& arguments) {
    char* workspace = static_cast<char*>(arguments.workspace);
    const auto wide = [&](std::size_t i) { return reinterpret_cast<float*>(workspace + offsets_.at(i)); };
    const auto operand = [&](std::size_t i) {
      if (op_.operands[i].dtype == DType::f32) return in<float>(arguments, i);
      convert(op_.operands[i].dtype, arguments.operands[i], DType::f32, wide(i), elements(op_.operands[i]), false);
      return static_cast<const float*>(wide(i));
    };
    const DType type = op_.results[0].dtype;
    float* result = type == DType::f32 ? out<float>(arguments, 0) : wide(2);
    convolution_.run(operand(0), operand(1), result, workspace + offsets_.back());
    if (type == DType::f32) return;
    convert(DType::f32, result, type, arguments.results[0], elements(op_.results[0]), op_.accumulate);
  }

 private:
  std::int64_t reserve(const OperandDescription& operand) {
    return plan_.reserve(operand.dtype == DType::f32 ? 0 : elements(operand) * std::int64_t{sizeof(float)});
  }

  void convert(DType from, const void* x, DType to, void* y, std::int64_t count, bool accumulate) const {
    conversion_kernels(environment_.instruction_set())
        .convert(count, element_of(from), x, element_of(to), y, accumulate, environment_.threads());
  }

  OpInstance op_;
  const CpuEnvironment& environment_;
  ImageConvolution convolution_;
  kernels::WorkspacePlan plan_;
  std::array<std::int64_t, 4> offsets_;
};

template <Pass pass>
PreparedKernel prepare_convolution(const OpInstance& op, const CpuEnvironment& environment) {
  if (const auto convolution = bf16_convolution(op, pass, environment.threads())) {
    return {[convolution](const KernelArguments& arguments) {
              convolution->run(arguments.operands[0], arguments.operands[1], arguments.results[0], arguments.workspace);
            },
            convolution->workspace_bytes()};
  }
  return devices::prepared<ConvertedConvolution>(op, pass, environment);
}

}  // namespace

void register_convolution(Registration& registration) {
  add(registration, {"convolution", "tt", "r", true}, prepare_convolution<Pass::forward>);
  add(registration, {"convolution_input_gradient", "tt", "r", true}, prepare_convolution<Pass::input_gradient>);
  add(registration, {"convolution_weight_gradient", "tt", "r", true}, prepare_convolution<Pass::weight_gradient>);
}

}  // namespace strata::cpu

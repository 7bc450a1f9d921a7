#include <array>
#include <memory>
#include <stdexcept>

#include "cpu_kernel.hpp"
#include "kernels/image_convolution.hpp"
#include "kernels/vector_kernels.hpp"

namespace strata::cpu {
namespace {

using Wanted = ConvolutionShape::Result;

ConvolutionShape shape_of(const OpInstance& op, Wanted result) {
  const Shape& first = op.operands[0].shape;
  const Shape& second = op.operands[1].shape;
  const Shape& last = op.results[0].shape;
  const Shape& x = result == Wanted::dx ? last : first;
  const Shape& w = result == Wanted::dw ? last : second;
  const Shape& y = result == Wanted::y ? last : result == Wanted::dx ? first : second;
  return {.result = result,
          .batch = x[0],
          .channels = x[1],
          .height = x[2],
          .width = x[3],
          .out_channels = w[0],
          .rows = w[2],
          .columns = w[3],
          .out_height = y[2],
          .out_width = y[3],
          .stride = op.attributes.integer("stride"),
          .padding = op.attributes.integer("padding"),
          .accumulate = op.accumulate && op.results[0].dtype == DType::f32};
}

/// A convolution of bf16 operands by the processor's instructions for bf16. Null if it has none, or if the types are
/// other ones.
std::shared_ptr<ImageConvolution> bf16_convolution(const OpInstance& op, Wanted result, int threads) {
  const bool has_bf16 = op.operands[0].dtype == DType::bf16 && op.operands[1].dtype == DType::bf16;
  if (!has_bf16 || op.results[0].dtype == DType::f16) return nullptr;
  ConvolutionShape shape = shape_of(op, result);
  shape.operand = Element::bf16;
  shape.result_element = element_of(op.results[0].dtype);
  shape.accumulate = op.accumulate;
  try {
    const auto convolution = std::make_shared<ImageConvolution>(shape, threads);
    return convolution->is_native() ? convolution : nullptr;
  } catch (const std::runtime_error&) {
    return nullptr;  // oneDNN has no bf16 on this processor
  }
}

/// A convolution whose operands and result may be shorter than f32. oneDNN gets copies in f32 of those.
class ConvertedConvolution {
 public:
  ConvertedConvolution(const OpInstance& op, Wanted result, const CpuEnvironment& environment)
      : op_(op),
        environment_(environment),
        convolution_(std::make_shared<ImageConvolution>(shape_of(op, result), environment.threads())),
        offsets_{reserve(op.operands[0]), reserve(op.operands[1]), reserve(op.results[0]),
                 plan_.reserve(convolution_->workspace_bytes())} {}

  [[nodiscard]] std::int64_t workspace_bytes() const { return plan_.bytes(); }

  void run(const KernelArguments& arguments) const {
    char* workspace = static_cast<char*>(arguments.workspace);
    const auto wide = [&](std::size_t i) { return reinterpret_cast<float*>(workspace + offsets_.at(i)); };
    const auto operand = [&](std::size_t i) {
      if (op_.operands[i].dtype == DType::f32) return in<float>(arguments, i);
      convert(op_.operands[i].dtype, arguments.operands[i], DType::f32, wide(i), elements(op_.operands[i]), false);
      return static_cast<const float*>(wide(i));
    };
    const DType type = op_.results[0].dtype;
    float* result = type == DType::f32 ? out<float>(arguments, 0) : wide(2);
    convolution_->run(operand(0), operand(1), result, workspace + offsets_.back());
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
  std::shared_ptr<ImageConvolution> convolution_;
  kernels::WorkspacePlan plan_;
  std::array<std::int64_t, 4> offsets_;
};

template <Wanted kResult>
PreparedKernel prepare_convolution(const OpInstance& op, const CpuEnvironment& environment) {
  if (const auto convolution = bf16_convolution(op, kResult, environment.threads())) {
    return {[convolution](const KernelArguments& arguments) {
              convolution->run(arguments.operands[0], arguments.operands[1], arguments.results[0], arguments.workspace);
            },
            convolution->workspace_bytes()};
  }
  const ConvertedConvolution convolution(op, kResult, environment);
  return {[convolution](const KernelArguments& arguments) { convolution.run(arguments); },
          convolution.workspace_bytes()};
}

}  // namespace

void register_convolution(Registration& registration) {
  registration.add(kernel({"convolution", "tt", "r", prepare_convolution<Wanted::y>, true}));
  registration.add(kernel({"convolution_input_gradient", "tt", "r", prepare_convolution<Wanted::dx>, true}));
  registration.add(kernel({"convolution_weight_gradient", "tt", "r", prepare_convolution<Wanted::dw>, true}));
}

}  // namespace strata::cpu

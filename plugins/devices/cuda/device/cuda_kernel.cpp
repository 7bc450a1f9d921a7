#include "device/cuda_kernel.hpp"

#include <string>
#include <utility>

#include "device/runtime.hpp"
#include "strata/error.hpp"
#include "strata/kernel_tools.hpp"

namespace strata::cuda {

CudaEnvironment::CudaEnvironment(const GpuDescription& gpu, std::unique_ptr<MatrixLibrary> matrices)
    : GpuEnvironment(gpu, std::string(runtime::kernel_runtime)), matrices_(std::move(matrices)) {}

void add(Registration& registration, KernelDefinition definition) {
  definition.runtime = runtime::kernel_runtime;
  definition.signature.reals = {DType::f32, DType::bf16, DType::f16, DType::f64};
  registration.add(std::move(definition));
}

namespace {

[[noreturn]] void throw_too_many_runs(const OpInstance& op, const std::string& dims) {
  throw ConfigurationError("op '" + op.op + "' (" + op.name + "): dim '" + dims + "' is dealt in more than " +
                           std::to_string(DimIndexMap::kMaxRuns) + " runs");
}

DimIndexMap convert(const OpInstance& op, const std::string& dims, const IndexMap& from) {
  if (from.segments.size() > DimIndexMap::kMaxRuns) throw_too_many_runs(op, dims);
  DimIndexMap map;
  map.local_size = from.local_size();
  map.global_size = from.global_size;
  for (const IndexSegment& segment : from.segments) {
    map.runs[map.count++] = {segment.local_begin, segment.global_begin, segment.length};
  }
  return map;
}

}  // namespace

DimIndexMap dim_index_map(const OpInstance& op, const Dim& dim) {
  return convert(op, dim, kernels::index_map(op, dim));
}

DimIndexMap dims_index_map(const OpInstance& op, const Dims& dims) {
  return convert(op, join(dims), kernels::index_map(op, dims));
}

std::optional<std::string> unsupported_index_maps(const OpInstance& op, const Dims& dims) {
  for (const Dim& dim : dims) {
    const auto found = op.index_maps.find(dim);
    if (found == op.index_maps.end() || found->second.segments.size() <= DimIndexMap::kMaxRuns) continue;
    return "dim '" + dim + "' is dealt in " + std::to_string(found->second.segments.size()) +
           " runs, the kernel takes up to " + std::to_string(DimIndexMap::kMaxRuns);
  }
  return std::nullopt;
}

}  // namespace strata::cuda

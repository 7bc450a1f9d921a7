#include <algorithm>

#include "kernels/attention_forward.cuh"
#include "kernels/attention_key_gradient.cuh"
#include "kernels/attention_query_gradient.cuh"
#include "launchers/attention_plan.hpp"

namespace strata::cuda {

template <class T, int Width>
bool MatrixUnits<T, Width>::fits(const GpuEnvironment& environment) {
  return std::max({AttentionTiling<Width>::kSharedBytes, QueryGradientTiling<Width>::kSharedBytes,
                   KeyGradientTiling<Width>::kSharedBytes}) <= environment.shared_bytes_per_block();
}

template <class T, int Width>
void MatrixUnits<T, Width>::forward(const AttentionPlan& plan, const KernelArguments& arguments) {
  using Tiling = AttentionTiling<Width>;
  launch(attention_kernel<T, Tiling>, plan.by_queries(Tiling::kQueries, Tiling::kThreads, Tiling::kSharedBytes),
         arguments.stream, plan.at(arguments), in<T>(arguments, 0), in<T>(arguments, 1), in<T>(arguments, 2),
         arguments.results[0], out<float>(arguments, 1));
}

template <class T, int Width>
void MatrixUnits<T, Width>::gradient(const AttentionPlan& plan, const AttentionShape& shape,
                                     const GradientArguments<T>& given) {
  using Queries = QueryGradientTiling<Width>;
  using Keys = KeyGradientTiling<Width>;
  launch(attention_query_gradient_kernel<T, Queries>,
         plan.by_queries(Queries::kQueries, Queries::kThreads, Queries::kSharedBytes), given.stream, shape, given.q,
         given.k, given.v, given.log_sum_exponential, given.d_o, given.products, given.d_q);
  launch(attention_key_gradient_kernel<T, Keys>, plan.by_keys(Keys::kKeys, Keys::kThreads, Keys::kSharedBytes),
         given.stream, shape, given.q, given.k, given.v, given.log_sum_exponential, given.d_o, given.products,
         given.d_k, given.d_v);
}

template struct MatrixUnits<BFloat16, kNarrowHead>;
template struct MatrixUnits<BFloat16, kWideHead>;
template struct MatrixUnits<Float16, kNarrowHead>;
template struct MatrixUnits<Float16, kWideHead>;

}  // namespace strata::cuda

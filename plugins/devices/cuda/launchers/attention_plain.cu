#include "kernels/attention_plain.cuh"
#include "launchers/attention_plan.hpp"

namespace strata::cuda {

static_assert(kWidestHead == kPlainWidth);

template <class T>
void PlainUnits<T>::forward(const AttentionPlan& plan, const KernelArguments& arguments) {
  using Real = Accumulate<T>;
  launch(attention_plain_kernel<T>, plan.by_queries(kPlainRows<Real>, kPlainThreads, PlainMemory<Real>::kBytes),
         arguments.stream, plan.at(arguments), in<T>(arguments, 0), in<T>(arguments, 1), in<T>(arguments, 2),
         arguments.results[0], out<Real>(arguments, 1));
}

template <class T>
void PlainUnits<T>::gradient(const AttentionPlan& plan, const AttentionShape& shape,
                             const GradientArguments<T>& given) {
  using Real = Accumulate<T>;
  launch(attention_plain_query_gradient_kernel<T>,
         plan.by_queries(kPlainRows<Real>, kPlainThreads, PlainMemory<Real>::kBytes), given.stream, shape, given.q,
         given.k, given.v, given.log_sum_exponential, given.d_o, given.products, given.d_q);
  launch(attention_plain_key_gradient_kernel<T>,
         plan.by_keys(kPlainRows<Real>, kPlainThreads, PlainMemory<Real>::kBytes), given.stream, shape, given.q,
         given.k, given.v, given.log_sum_exponential, given.d_o, given.products, given.d_k, given.d_v);
}

template struct PlainUnits<float>;
template struct PlainUnits<BFloat16>;
template struct PlainUnits<Float16>;
template struct PlainUnits<double>;

}  // namespace strata::cuda

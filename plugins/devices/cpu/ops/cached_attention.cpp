#include <algorithm>

#include "cpu_kernel.hpp"
#include "kernels/attention.hpp"
#include "strata/kernel_tools.hpp"

namespace strata::cpu {
namespace {

/// New positions of a text from which tiles of queries pay.
constexpr std::int64_t kTiledPositions = 8;

/// The operand that holds the bias, if there is one.
constexpr std::size_t kBias = 4;

CachedAttentionShape cached_shape(const OpInstance& op) {
  CachedAttentionShape shape;
  shape.texts = op.operands[0].shape[0];
  shape.positions = op.operands[0].shape[1];
  shape.capacity = op.results[1].shape[1];
  shape.head_dim = columns(op.operands[0]);
  shape.heads = elements(op.operands[0]) / (shape.texts * shape.positions * shape.head_dim);
  shape.kv_heads = elements(op.operands[1]) / (shape.texts * shape.positions * shape.head_dim);
  shape.window = op.attributes.integer("window");
  shape.scale = static_cast<float>(attention_scores(op).scale);
  shape.cap = static_cast<float>(attention_scores(op).cap);
  if (op.operands.size() > kBias) shape.distances = columns(op.operands[kBias]);
  return shape;
}

/// One text as an instance of tiled attention: queries at [first, first + count), keys at [0, first + count).
struct TiledText {
  explicit TiledText(const CachedAttentionShape& cached) {
    shape.batch = 1;
    shape.heads = cached.heads;
    shape.kv_heads = cached.kv_heads;
    shape.head_dim = cached.head_dim;
    shape.scale = cached.scale;
    shape.cap = cached.cap;
    shape.window = cached.window;
    place(0, cached.capacity);
  }

  void place(std::int64_t first, std::int64_t count) {
    queries = {0, first, count};
    shape.sequence = count;
    shape.kv_sequence = first + count;
    shape.query_positions = {&queries, 1};
    shape.global_heads = shape.heads;
    shape.global_sequence = shape.kv_sequence;
    shape.global_kv_sequence = shape.kv_sequence;
  }

  AttentionShape shape;
  IndexSegment queries;
};

/// The number of new positions if they follow one another and padding follows them, else -1.
std::int64_t count_if_contiguous(const std::int32_t* where, std::int64_t positions) {
  const auto* end = std::find(where, where + positions, -1);
  for (const auto* at = where; at != end; ++at) {
    if (*at != *where + (at - where)) return -1;
  }
  return std::all_of(end, where + positions, [](std::int32_t position) { return position == -1; }) ? end - where : -1;
}

template <class T>
class CachedAttention {
 public:
  CachedAttention(const OpInstance& op, const CpuEnvironment& environment)
      : kernels_(cached_attention_kernels(environment.instruction_set()).of<T>()),
        tiles_(attention_kernels(environment.instruction_set()).of<T>()),
        shape_(cached_shape(op)),
        threads_(environment.threads()) {
    if (!takes_tiles()) {
      static_cast<void>(workspace_.reserve(kernels_.workspace_bytes(shape_, threads_)));
      return;
    }
    const std::int64_t tiled = tiles_.forward_workspace_bytes(TiledText(shape_).shape, threads_);
    static_cast<void>(workspace_.reserve(std::max(tiled, kernels_.workspace_bytes(shape_, threads_))));
    log_sums_ = workspace_.reserve(shape_.heads * shape_.positions * std::int64_t{sizeof(float)});
  }

  [[nodiscard]] std::int64_t workspace_bytes() const { return workspace_.bytes(); }

  void run(const KernelArguments& arguments) const {
    const std::int32_t* where = in<std::int32_t>(arguments, 3);
    kernels_.keep(shape_, where, in<T>(arguments, 1), out<T>(arguments, 1), threads_);
    kernels_.keep(shape_, where, in<T>(arguments, 2), out<T>(arguments, 2), threads_);
    if (!takes_tiles()) return attend(arguments, 0, shape_.texts);
    for (std::int64_t text = 0; text < shape_.texts; ++text) {
      const std::int64_t count = count_if_contiguous(where + text * shape_.positions, shape_.positions);
      if (count < kTiledPositions) {
        attend(arguments, text, 1);
      } else {
        attend_in_tiles(arguments, text, where[text * shape_.positions], count);
      }
    }
  }

 private:
  /// Tiles have no bias of this form.
  [[nodiscard]] bool takes_tiles() const { return shape_.positions >= kTiledPositions && shape_.distances == 0; }
  [[nodiscard]] std::int64_t query_size() const { return shape_.positions * shape_.heads * shape_.head_dim; }
  [[nodiscard]] std::int64_t cache_size() const { return shape_.capacity * shape_.kv_heads * shape_.head_dim; }

  void attend(const KernelArguments& arguments, std::int64_t first, std::int64_t texts) const {
    CachedAttentionShape shape = shape_;
    shape.texts = texts;
    kernels_.attend(shape, in<std::int32_t>(arguments, 3) + first * shape_.positions,
                    in<T>(arguments, 0) + first * query_size(), out<T>(arguments, 1) + first * cache_size(),
                    out<T>(arguments, 2) + first * cache_size(),
                    shape_.distances == 0 ? nullptr : in<T>(arguments, kBias),
                    out<T>(arguments, 0) + first * query_size(), arguments.workspace, threads_);
  }

  void attend_in_tiles(const KernelArguments& arguments, std::int64_t text, std::int64_t first,
                       std::int64_t count) const {
    TiledText tiled(shape_);
    tiled.place(first, count);
    T* output = out<T>(arguments, 0) + text * query_size();
    auto* log_sums = reinterpret_cast<float*>(static_cast<char*>(arguments.workspace) + log_sums_);
    tiles_.forward(tiled.shape, in<T>(arguments, 0) + text * query_size(), out<T>(arguments, 1) + text * cache_size(),
                   out<T>(arguments, 2) + text * cache_size(), output, log_sums, arguments.workspace, threads_);
    std::fill(output + count * shape_.heads * shape_.head_dim, output + query_size(), T{});
  }

  CachedAttentionKernels<T> kernels_;
  AttentionKernels<T> tiles_;
  CachedAttentionShape shape_;
  int threads_;
  kernels::WorkspacePlan workspace_;
  std::int64_t log_sums_ = 0;
};

}  // namespace

void register_cached_attention(Registration& registration) {
  for (const char* operands : {"ttti", "tttit"}) {
    add(registration, {"cached_attention", operands, "ttt"},
        []<class T>(const OpInstance& op, const CpuEnvironment& environment) {
          return devices::prepared<CachedAttention<T>>(op, environment);
        });
  }
}

}  // namespace strata::cpu

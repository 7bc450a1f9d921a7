#include "ops/op_case.hpp"

#include <algorithm>
#include <limits>
#include <ostream>

#include "strata/error.hpp"
#include "strata/half.hpp"
#include "strata/kernel_tools.hpp"
#include "strata/random.hpp"
#include "verify/graph_evaluator.hpp"

namespace strata::testing {

using host::download;
using host::upload;

namespace {

constexpr std::int64_t kGuardBytes = 256;
constexpr unsigned char kGuard = 0xA5;

/// Device memory with a guard after it. It starts at `offset` of its allocation.
class GuardedMemory {
 public:
  GuardedMemory(Device& device, std::int64_t bytes, std::int64_t offset = 0)
      : device_(device), bytes_(bytes), offset_(offset), memory_(device.allocate(offset + bytes + kGuardBytes)) {
    const std::vector<unsigned char> guard(kGuardBytes, kGuard);
    device.copy_from_host(StreamKind::compute, end(), guard.data(), kGuardBytes);
  }

  [[nodiscard]] void* data() const { return static_cast<char*>(memory_.get()) + offset_; }

  void check(const std::string& what) const {
    std::vector<unsigned char> guard(kGuardBytes);
    device_.copy_to_host(StreamKind::compute, guard.data(), end(), kGuardBytes);
    if (std::any_of(guard.begin(), guard.end(), [](unsigned char byte) { return byte != kGuard; })) {
      throw RuntimeError("the kernel wrote behind its " + what);
    }
  }

 private:
  [[nodiscard]] void* end() const { return static_cast<char*>(data()) + bytes_; }

  Device& device_;
  std::int64_t bytes_;
  std::int64_t offset_;
  std::shared_ptr<void> memory_;
};

using kernels::bytes;
using kernels::elements;

/// True for flat ops. They are in no graph, so the row states their results.
bool is_flat(const OpCase& op_case, const OpRegistry& registry) {
  return registry.get(op_case.op).flat_signature(op_case.attributes).has_value();
}

/// True if the row has 16-bit values or gradients whatever the type that it runs in. Its other numbers are f32 then, as
/// in a run.
bool is_mixed(const OpCase& op_case) {
  const auto is_short = [](const CaseOperand& each) { return each.dtype == DType::bf16 || each.dtype == DType::f16; };
  return std::any_of(op_case.operands.begin(), op_case.operands.end(), is_short) ||
         std::any_of(op_case.results.begin(), op_case.results.end(), is_short);
}

/// The case as a one-node graph of global sizes.
Node add_node(const OpCase& op_case, const OpRegistry& registry, DType real, Graph& graph) {
  graph.sizes = op_case.sizes;
  const bool full_is_f32 = real != DType::f64 || is_mixed(op_case);
  const auto actual = [=](const CaseOperand& operand) {
    if (operand.dtype != DType::f32) return operand.dtype;
    return operand.full && full_is_f32 ? DType::f32 : real;
  };
  Node node;
  node.op = op_case.op;
  node.name = op_case.name;
  node.attributes = op_case.attributes;
  for (std::size_t i = 0; i < op_case.operands.size(); ++i) {
    Node leaf;
    leaf.op = "input";
    leaf.name = "operand" + std::to_string(i);
    leaf.results = {{op_case.operands[i].dims, actual(op_case.operands[i])}};
    node.operands.push_back({graph.append(std::move(leaf)), 0});
  }
  for (const CaseOperand& result : op_case.results) node.results.push_back({result.dims, actual(result)});
  if (!is_flat(op_case, registry)) node.results = registry.get(op_case.op).infer(graph, node);
  return node;
}

std::vector<double> indices(const std::string& name, std::int64_t count, std::int64_t bound) {
  const std::uint64_t key = random::stream_key(2, name, 0);
  std::vector<double> values;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::uint64_t drawn = random::below(key, static_cast<std::uint64_t>(i), static_cast<std::uint64_t>(bound));
    values.push_back(i % 5 == 3 ? -1.0 : static_cast<double>(drawn));
  }
  return values;
}

double rounded_to(DType type, double value) {
  const auto single = static_cast<float>(value);
  if (type == DType::bf16) return from_bf16(to_bf16(single));
  return type == DType::f16 ? from_f16(to_f16(single)) : single;
}

/// The documents of the tokens of an operand [batch seq].
std::vector<double> documents(const OpCase& op_case, const OpInstance& instance, const OperandDescription& operand) {
  const IndexMap& samples = kernels::index_map(instance, operand.dims[0]);
  const IndexMap& tokens = kernels::index_map(instance, operand.dims[1]);
  const std::uint64_t key = random::stream_key(3, op_case.name, 0);
  std::vector<double> values;
  for (std::int64_t b = 0; b < samples.local_size(); ++b) {
    for (std::int64_t t = 0; t < tokens.local_size(); ++t) {
      values.push_back(document_of(key, samples.global_index(b), tokens.global_index(t), tokens.global_size));
    }
  }
  return values;
}

/// The cache positions of the tokens of an operand [batch seq]. Texts begin at different positions. Some have fewer
/// tokens than others, and one has none.
std::vector<double> cache_positions(const OpCase& op_case, const OperandDescription& operand) {
  const std::int64_t texts = operand.shape[0];
  const std::int64_t length = operand.shape[1];
  const std::int64_t last_begin = op_case.sizes.at(kCacheDim) - length;
  std::vector<double> values;
  for (std::int64_t text = 0; text < texts; ++text) {
    const std::int64_t begin = text == 0 ? last_begin : 7 * text % (last_begin + 1);
    const std::int64_t count = text == 1 ? 0 : length - text * length / (2 * texts);
    for (std::int64_t i = 0; i < length; ++i) values.push_back(i < count ? static_cast<double>(begin + i) : -1.0);
  }
  return values;
}

/// Other numbers for documents that were counted.
std::vector<double> scattered(std::vector<double> documents) {
  constexpr double kNumbers[] = {3, 0, 3, -1};
  for (double& each : documents) each = kNumbers[static_cast<std::size_t>(each) % std::size(kNumbers)];
  return documents;
}

/// Computes the output and log-sum-exp of attention for these operands.
void run_forward_attention(const OpCase& op_case, const OpInstance& gradient, Device& reference,
                           std::vector<std::vector<double>>& operands) {
  OpInstance forward = gradient;
  forward.op = "attention";
  forward.accumulate = false;
  forward.operands.resize(3);
  forward.results = {gradient.operands[3], gradient.operands[4]};
  for (auto* descriptions : {&forward.operands, &forward.results}) {
    for (OperandDescription& description : *descriptions) description.dtype = DType::f64;
  }
  CaseValues values{{operands[0], operands[1], operands[2]}, {operands[3], operands[4]}};
  for (std::size_t i = 6; i < operands.size(); ++i) {  // the documents
    forward.operands.push_back(gradient.operands[i]);
    values.operands.push_back(operands[i]);
  }
  const auto results = run_case(op_case, forward, values, reference);
  for (const std::size_t i : {0U, 1U}) {
    operands[3 + i] = results[i];
    for (double& value : operands[3 + i]) value = rounded_to(gradient.operands[3 + i].dtype, value);
  }
}

void launch(const OpCase& op_case, Kernel& kernel, const KernelArguments& arguments, Device& device) {
  if (op_case.in_graph) {
    KernelArguments captured = arguments;
    captured.context = {.step = 2, .micro_batch = op_case.micro_batch, .learning_rate = 0.5, .loss_scale = 2};
    const auto graph = device.capture([&] { kernel.launch(captured); });
    graph->launch(arguments.context);
    device.synchronize(StreamKind::compute);
  } else {
    kernel.launch(arguments);
    device.synchronize(StreamKind::compute);
  }
}

}  // namespace

std::vector<double> random_values(const std::string& name, std::int64_t count, Fill fill, DType type) {
  const std::uint64_t key = random::stream_key(1, name, 0);
  std::vector<double> values;
  for (std::int64_t i = 0; i < count; ++i) {
    const auto index = static_cast<std::uint64_t>(i);
    const double uniform = random::word(key, index) * 0x1p-32;
    double value = random::normal(key, index);
    if (fill == Fill::sparse) value = index % 7 != 0 && uniform < 0.6 ? 0.0 : 0.5 + uniform;
    if (fill == Fill::positive) value = 0.5 + uniform;
    if (fill == Fill::large) value = 3.0 + 2.0 * uniform;
    if (fill == Fill::bytes) value = static_cast<double>(random::below(key, index, 255)) - 127.0;
    if (fill == Fill::count) value = 37.0;
    if (fill == Fill::places) value = static_cast<double>(i * 7 % 150);
    if (fill == Fill::distinct) value = static_cast<double>(i * 101 % 257 - 128) / 32;
    if (fill == Fill::masked && (i % 5 == 3 || uniform < 0.25)) value = -std::numeric_limits<double>::infinity();
    values.push_back(rounded_to(type, value));
  }
  return values;
}

std::int64_t elements_of(const DimSizes& sizes, const Dims& dims) {
  std::int64_t count = 1;
  for (const Dim& dim : dims) count *= sizes.at(dim);
  return count;
}

double document_of(std::uint64_t key, std::int64_t sequence, std::int64_t token, std::int64_t length) {
  const std::uint32_t starts = random::drop_threshold(5.0 / static_cast<double>(length));
  double document = 0;
  for (std::int64_t i = 1; i <= token; ++i) {
    document += random::word(key, static_cast<std::uint64_t>(sequence * length + i)) < starts;
  }
  return document;
}

OpInstance make_instance(const OpCase& op_case, const OpRegistry& registry, DType real) {
  Graph graph;
  const Node node = add_node(op_case, registry, real, graph);
  IterationSpace space;
  if (!is_flat(op_case, registry)) {
    space = registry.get(op_case.op).iteration(graph, node);
  } else {
    for (const CaseOperand& operand : op_case.operands) space.operands.push_back(operand.dims);
    for (const CaseOperand& result : op_case.results) space.results.push_back(result.dims);
  }

  OpInstance instance;
  instance.op = op_case.op;
  instance.name = op_case.name;
  instance.attributes = op_case.attributes;
  instance.seed = 1234567;
  instance.accumulate = op_case.accumulate;
  const auto describe = [&](const TensorType& type, const Dims& dims) {
    OperandDescription description{type.dtype, dims, {}};
    for (std::size_t i = 0; i < dims.size(); ++i) {
      const auto given = op_case.shards.find(dims[i]);
      const IndexMap map =
          given != op_case.shards.end() ? given->second : IndexMap::whole(op_case.sizes.at(type.dims[i]));
      description.shape.push_back(map.local_size());
      instance.index_maps[dims[i]] = map;
    }
    return description;
  };
  for (const auto& [dim, size] : op_case.sizes) {
    const auto given = op_case.shards.find(dim);
    instance.index_maps[dim] = given != op_case.shards.end() ? given->second : IndexMap::whole(size);
  }
  for (std::size_t i = 0; i < node.operands.size(); ++i) {
    instance.operands.push_back(describe(graph.type(node.operands[i]), space.operands[i]));
  }
  for (std::size_t i = 0; i < node.results.size(); ++i) {
    instance.results.push_back(describe(node.results[i], space.results[i]));
  }
  if (instance.index_maps.contains("batch")) instance.micro_batch_dim = "batch";
  return instance;
}

CaseValues make_values(const OpCase& op_case, const OpInstance& instance, Device& reference) {
  CaseValues values;
  std::vector<std::vector<double>>& operands = values.operands;
  for (std::size_t i = 0; i < instance.operands.size(); ++i) {
    const std::string name = op_case.name + "/" + std::to_string(i);
    const CaseOperand& operand = op_case.operands[i];
    const std::int64_t count = elements(instance.operands[i]);
    if (operand.fill == Fill::ids || operand.fill == Fill::targets) {
      // embedding_gradient has no table operand. Its result has the table's dims.
      const Dim dim = operand.fill == Fill::targets        ? op_case.operands[0].dims.back()
                      : op_case.op == "embedding_gradient" ? instance.results[0].dims[0]
                                                           : op_case.operands[0].dims[0];
      operands.push_back(indices(name, count, op_case.sizes.at(dim)));
    } else if (operand.fill == Fill::positions) {
      operands.push_back(indices(name, count, op_case.sizes.at(op_case.operands[1].dims[0])));
    } else if (operand.fill == Fill::cache_positions) {
      operands.push_back(cache_positions(op_case, instance.operands[i]));
    } else if (operand.fill == Fill::documents) {
      operands.push_back(documents(op_case, instance, instance.operands[i]));
    } else if (operand.fill == Fill::scattered_documents) {
      operands.push_back(scattered(documents(op_case, instance, instance.operands[i])));
    } else {
      operands.push_back(random_values(name, count, operand.fill, instance.operands[i].dtype));
    }
  }
  if (op_case.op == "attention_gradient") run_forward_attention(op_case, instance, reference, operands);
  for (std::size_t i = 0; i < instance.results.size(); ++i) {
    const std::int64_t count = elements(instance.results[i]);
    if (instance.accumulate || !op_case.results.empty()) {
      const Fill fill = op_case.results.empty() ? Fill::normal : op_case.results[i].fill;
      const std::string name = op_case.name + "/result" + std::to_string(i);
      values.before.push_back(random_values(name, count, fill, instance.results[i].dtype));
    } else {
      // Mark elements that a kernel does not write: with NaN, or with 85 for integers.
      const bool is_integer = !is_floating_point(instance.results[i].dtype);
      const double unwritten = is_integer ? 85 : std::numeric_limits<double>::quiet_NaN();
      values.before.emplace_back(static_cast<std::size_t>(count), unwritten);
    }
  }
  return values;
}

std::vector<std::vector<double>> run_case(const OpCase& op_case, const OpInstance& instance, const CaseValues& values,
                                          Device& device) {
  std::vector<GuardedMemory> memory;
  const auto allocate = [&](const OperandDescription& operand) {
    const std::int64_t offset = op_case.in_views ? static_cast<std::int64_t>(size_of(operand.dtype)) : 0;
    memory.emplace_back(device, bytes(operand), offset);
  };
  std::vector<const void*> operand_pointers;
  for (std::size_t i = 0; i < values.operands.size(); ++i) {
    allocate(instance.operands[i]);
    upload(device, memory.back().data(), instance.operands[i].dtype, values.operands[i]);
    operand_pointers.push_back(memory.back().data());
  }
  std::vector<void*> result_pointers;
  for (std::size_t i = 0; i < instance.results.size(); ++i) {
    if (op_case.in_place >= 0 && i == 0) {
      result_pointers.push_back(memory[static_cast<std::size_t>(op_case.in_place)].data());
      continue;
    }
    allocate(instance.results[i]);
    upload(device, memory.back().data(), instance.results[i].dtype, values.before[i]);
    result_pointers.push_back(memory.back().data());
  }
  const GuardedMemory workspace(device, device.workspace_bytes(instance));

  StepContext context;
  context.step = 11;
  context.micro_batch = op_case.micro_batch;
  context.learning_rate = 0.125;
  context.weight_decay_factor = 0.5;
  context.loss_scale = 8;
  context.skipped_steps = 4;
  launch(op_case, *device.prepare(instance), {operand_pointers, result_pointers, workspace.data(), context}, device);

  workspace.check("workspace");
  for (const GuardedMemory& each : memory) each.check("operands and results");
  std::vector<std::vector<double>> results;
  for (std::size_t i = 0; i < instance.results.size(); ++i) {
    results.push_back(download(device, result_pointers[i], instance.results[i].dtype, elements(instance.results[i])));
  }
  return results;
}

IndexMap shard(std::int64_t size, int count, int index, Distribution distribution) {
  return {size, split_dimension(size, count, index, distribution)};
}

void PrintTo(const OpCase& op_case, std::ostream* out) { *out << op_case.name; }

}  // namespace strata::testing

#include "compiler/parameters/bucket_update.hpp"

#include <algorithm>
#include <set>
#include <utility>

#include "compiler/placement/bucket.hpp"
#include "strata/compiler_ops.hpp"
#include "strata/error.hpp"

namespace strata::host {
namespace {

/// The states of which this rank has a piece or all, other than those of a whole parameter.
std::vector<std::string> names_of_states(const AssignedUpdate& assigned) {
  std::vector<std::string> names;
  for (const OptimizerState& each : assigned.states) {
    if (!each.is_of_whole) names.push_back(each.name);
  }
  return names;
}

class BucketUpdate final : public UpdateContext {
 public:
  BucketUpdate(const PlacedModel& model, const TrainedBucket& trained, const std::vector<BufferId>& updated,
               BufferId scale, ProgramBuilder& builder)
      : builder_(builder),
        bucket_(trained.bucket),
        gradient_(trained.completion.completed.front()),
        scale_(scale),
        assigned_(model.groups.of(builder.program().parameters[bucket_.parameters.front()].name)),
        group_(model.request.optimizer.groups.at(static_cast<std::size_t>(bucket_.group))),
        clip_value_(model.request.optimizer.clip_value),
        registry_(model.registry()),
        dims_(builder.program().parameters[bucket_.parameters.front()].dims),
        state_names_(names_of_states(assigned_)),
        values_(updated.begin(), updated.end() - static_cast<std::ptrdiff_t>(state_names_.size())),
        states_(updated.begin() + static_cast<std::ptrdiff_t>(values_.size()), updated.end()) {}

  BucketInstructions run() {
    call_plugin(group_.origin, "update", [&] { group_.optimizer->update(*this); });
    if (updates_ != 1) refuse("emits " + std::to_string(updates_) + " updates of a bucket; accepted: 1");
    for (const std::string& name : state_names_) {
      if (!changed_.contains(name)) refuse("names the state '" + name + "', which no op of it changes");
    }
    if (!made_.whole && state_names_.size() < assigned_.states.size()) {
      refuse("names states of whole parameters, but does not call on_whole()");
    }
    return std::move(made_);
  }

  [[nodiscard]] const ParameterDescription& parameter() const override {
    if (!bucket_.has_own_bucket) throw ConfigurationError("a bucket may hold several parameters");
    return assigned_.parameter;
  }

  [[nodiscard]] std::int64_t elements(const Dims& dims) const override {
    static_cast<void>(parameter());
    std::int64_t count = 1;
    for (const Dim& dim : dims) {
      const auto found =
          std::find_if(dims_.begin(), dims_.end(), [&](const ShardedDim& each) { return each.dim == dim; });
      if (found == dims_.end()) throw ConfigurationError("the parameter has no dimension '" + dim + "'");
      count *= found->global_size;
    }
    return count;
  }

  [[nodiscard]] BufferId gradient() const override { return gradient_; }
  [[nodiscard]] BufferId scale() const override { return scale_; }
  [[nodiscard]] BufferId values() const override { return values_.back(); }

  [[nodiscard]] BufferId state(const std::string& name) const override {
    const auto found = std::find(state_names_.begin(), state_names_.end(), name);
    if (found != state_names_.end()) return states_[static_cast<std::size_t>(found - state_names_.begin())];
    throw ConfigurationError("there is no state '" + name + "'; the optimizer names [" + join(state_names_) + "]");
  }

  void update(const std::string& op, Attributes attributes, const UpdateOperands& operands) override {
    const FlatSignature signature = signature_of(op, attributes);
    if (!signature.is_update) throw ConfigurationError("op '" + op + "' updates no parameters");
    if (operands.direction >= 0) {
      require_piece(operands.direction);
      attributes.set(UpdateAttributes::kIsDirection, true);
    } else {
      clip(attributes);
    }
    std::vector<BufferId> inputs{operands.direction >= 0 ? operands.direction : gradient_, scale_};
    inputs.insert(inputs.end(), operands.further.begin(), operands.further.end());
    std::vector<BufferId> results = values_;
    append_states(signature, results);
    push(op, "update " + bucket_.name, std::move(inputs), std::move(results), std::move(attributes));
    ++updates_;
  }

  BufferId sums(const std::string& op, const std::vector<BufferId>& operands, std::int64_t count,
                Attributes attributes) override {
    if (signature_of(op, attributes).is_update) throw ConfigurationError("op '" + op + "' makes no sums");
    if (count < 1) throw ConfigurationError("a buffer for " + std::to_string(count) + " sums");
    const BufferId sums = builder_.add_flat(bucket_.name + " sums", BufferKind::optimizer, DType::f64, count);
    clip(attributes);
    push(op, "sums of " + bucket_.name, operands, {sums}, std::move(attributes));
    const AxisSet axes = bucket_.piece_axes();
    if (axes.empty()) return sums;
    made_.after.push_back(
        builder_.all_reduce(sums, in_mesh_order(builder_.mesh(), axes), std::nullopt, bucket_.name + " sums"));
    return sums;
  }

  void change_states(const std::string& op, const std::vector<BufferId>& operands, Attributes attributes) override {
    const FlatSignature signature = signature_of(op, attributes);
    if (signature.is_update || signature.states.empty()) throw ConfigurationError("op '" + op + "' changes no states");
    std::vector<BufferId> results;
    append_states(signature, results);
    push(op, "states of " + bucket_.name, operands, std::move(results), std::move(attributes));
  }

  BufferId direction(const std::string& op, Attributes attributes) override {
    const FlatSignature signature = signature_of(op, attributes);
    if (signature.is_update || signature.outputs != 1) throw ConfigurationError("op '" + op + "' makes no direction");
    clip(attributes);
    const BufferId made = add_piece("direction", full_type(bucket_));
    std::vector<BufferId> results{made};
    append_states(signature, results);
    push(op, "direction of " + bucket_.name, {gradient_, scale_}, std::move(results), std::move(attributes));
    return made;
  }

  BufferId on_whole(BufferId direction, const Dims& apart, WholeFunction function) override {
    require_piece(direction);
    static_cast<void>(parameter());
    if (made_.whole) throw ConfigurationError("a second function on whole parameters");
    if (!function) throw ConfigurationError("an empty function on whole parameters");
    const DType type = bucket_.type == DType::bf16 ? DType::bf16 : full_type(bucket_);
    const BufferId exchanged =
        builder_.buffer(direction).dtype == type ? direction : cast(direction, add_piece("short direction", type));
    made_.whole = WholeRequest{exchanged, add_piece("whole direction", type), apart, std::move(function), scale_};
    made_.before = std::move(made_.after);
    made_.after.clear();
    return made_.whole->result;
  }

 private:
  [[noreturn]] void refuse(const std::string& what) const { throw PluginError(group_.origin, "", "", what); }

  [[nodiscard]] FlatSignature signature_of(const std::string& op, const Attributes& attributes) const {
    if (!registry_.has(op)) throw ConfigurationError("there is no op '" + op + "'");
    if (auto signature = registry_.get(op).flat_signature(attributes)) return *std::move(signature);
    throw ConfigurationError("op '" + op + "' works on no flat buffers");
  }

  /// For an op that reads the gradient.
  void clip(Attributes& attributes) const {
    if (clip_value_ > 0) attributes.set(UpdateAttributes::kClipValue, clip_value_);
  }

  /// Appends the buffers of the states that an op changes.
  void append_states(const FlatSignature& signature, std::vector<BufferId>& results) {
    for (const std::string& name : signature.states) {
      results.push_back(state(name));
      changed_.insert(name);
    }
  }

  /// Emits an op on this rank's piece of the bucket.
  void push(const std::string& op, const std::string& name, std::vector<BufferId> operands,
            std::vector<BufferId> results, Attributes attributes) {
    attributes.set(UpdateAttributes::kWeightDecay, group_.weight_decay);
    attributes.set(UpdateAttributes::kDecayElements, bucket_.decay_elements);
    attributes.set(UpdateAttributes::kLearningRateFactor, group_.lr_factor);
    Instruction instruction = flat_op(op, name, std::move(operands), std::move(results), std::move(attributes));
    instruction.as<Compute>()->iteration = piece_iteration(builder_.program(), bucket_);
    made_.after.push_back(std::move(instruction));
  }

  BufferId cast(BufferId from, BufferId to) {
    Instruction instruction = flat_op(ops::kCast, "shorten the direction of " + bucket_.name, {from}, {to},
                                      {{"dtype", std::string(to_string(builder_.buffer(to).dtype))}});
    auto* compute = instruction.as<Compute>();
    compute->iteration = {piece_iteration(builder_.program(), bucket_).front()};
    compute->operand_dims = {{compute->iteration.front().dim}};
    compute->result_dims = compute->operand_dims;
    made_.after.push_back(std::move(instruction));
    return to;
  }

  BufferId add_piece(const std::string& what, DType type) {
    return builder_.add_flat(bucket_.name + "." + what, BufferKind::optimizer, type, bucket_.piece_elements());
  }

  void require_piece(BufferId buffer) const {
    const auto count = static_cast<BufferId>(builder_.program().buffers.size());
    if (buffer >= 0 && buffer < count && builder_.buffer(buffer).elements() == bucket_.piece_elements()) return;
    throw ConfigurationError("buffer %" + std::to_string(buffer) + " is no piece of a direction");
  }

  ProgramBuilder& builder_;
  const Bucket& bucket_;
  BufferId gradient_;
  BufferId scale_;
  const AssignedUpdate& assigned_;
  const OptimizerGroup& group_;
  double clip_value_;
  const OpRegistry& registry_;
  /// Of the bucket's only parameter.
  std::vector<ShardedDim> dims_;
  std::vector<std::string> state_names_;
  std::vector<BufferId> values_;
  std::vector<BufferId> states_;
  std::set<std::string> changed_;
  BucketInstructions made_;
  int updates_ = 0;
};

BucketInstructions move_averages(const PlacedModel& model, const TrainedBucket& trained,
                                 const std::vector<BufferId>& updated, BufferId scale, ProgramBuilder& builder) {
  Attributes attributes{{UpdateAttributes::kIsDirection, true},
                        {UpdateAttributes::kWeightDecay, 0.0},
                        {UpdateAttributes::kDecayElements, std::int64_t{0}}};
  const bool moves_by_sign = trained.bucket.sign_step > 0;
  if (moves_by_sign) {
    attributes.set("step", trained.bucket.sign_step);
  } else {
    attributes.set("micro_batches", static_cast<double>(model.batch.micro_batches));
  }
  Instruction instruction =
      flat_op(moves_by_sign ? ops::kSignUpdate : ops::kRunningAverageUpdate, "move " + trained.bucket.name,
              {trained.completion.completed.front(), scale}, updated, std::move(attributes));
  instruction.as<Compute>()->iteration = piece_iteration(builder.program(), trained.bucket);
  BucketInstructions made;
  made.after.push_back(std::move(instruction));
  return made;
}

}  // namespace

BucketInstructions update_bucket(const PlacedModel& model, const TrainedBucket& trained,
                                 const std::vector<BufferId>& updated, BufferId scale, ProgramBuilder& builder) {
  if (is_running_average(trained.bucket)) return move_averages(model, trained, updated, scale, builder);
  return BucketUpdate(model, trained, updated, scale, builder).run();
}

}  // namespace strata::host

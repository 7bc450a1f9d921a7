#include "loaded_nccl.hpp"

#include <dlfcn.h>
#include <nccl.h>

#include <cstring>

#include "strata/error.hpp"
#include "strata/internal/library_file.hpp"

namespace strata::nccl {
namespace {

/// The first version with non-blocking communicators.
constexpr int kOldestVersion = 21400;

std::string version_text(int version) {
  return std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) + "." +
         std::to_string(version % 100);
}

ncclDataType_t data_type(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return ncclFloat64;
    case DType::f32:
      return ncclFloat32;
    case DType::bf16:
      return ncclBfloat16;
    case DType::f16:
      return ncclFloat16;
    case DType::i32:
      return ncclInt32;
    case DType::i64:
      return ncclInt64;
    case DType::i8:
      return ncclInt8;
  }
  throw VerificationError("NCCL has no element type for number " + std::to_string(static_cast<int>(dtype)));
}

ncclRedOp_t operation(Reduction reduction) { return reduction == Reduction::sum ? ncclSum : ncclMax; }

ncclComm_t handle(void* communicator) { return static_cast<ncclComm_t>(communicator); }
cudaStream_t cuda(void* stream) { return static_cast<cudaStream_t>(stream); }
std::size_t count(std::int64_t elements) { return static_cast<std::size_t>(elements); }

/// Loads NCCL for good, because its threads run in it.
void* load(const std::string& library) {
  try {
    return load_library(library);
  } catch (const ConfigurationError& error) {
    throw ConfigurationError("communicator 'nccl': NCCL cannot be loaded: " + std::string(error.what()) +
                             "; install NCCL 2.14 or newer, or give its path as the option 'library'");
  }
}

template <class Function>
void find(void* library, const char* name, Function*& function) {
  function = reinterpret_cast<Function*>(::dlsym(library, name));
  if (function == nullptr)
    throw ConfigurationError("communicator 'nccl': its library has no function " + std::string(name));
}

}  // namespace

struct LoadedNccl::Functions {
  explicit Functions(void* library) {
    find(library, "ncclGetVersion", get_version);
    get_version(&version);
    if (version < kOldestVersion) {
      throw ConfigurationError("communicator 'nccl': found NCCL " + version_text(version) +
                               "; accepted: " + version_text(kOldestVersion) + " or newer");
    }
    find(library, "ncclGetUniqueId", get_unique_id);
    find(library, "ncclCommInitRankConfig", init_rank);
    find(library, "ncclCommGetAsyncError", get_async_error);
    find(library, "ncclGetErrorString", get_error_string);
    find(library, "ncclGetLastError", get_last_error);
    find(library, "ncclAllReduce", all_reduce);
    find(library, "ncclAllGather", all_gather);
    find(library, "ncclReduceScatter", reduce_scatter);
    find(library, "ncclBroadcast", broadcast);
    find(library, "ncclSend", send);
    find(library, "ncclRecv", receive);
    find(library, "ncclGroupStart", group_start);
    find(library, "ncclGroupEnd", group_end);
    find(library, "ncclCommFinalize", finalize);
    find(library, "ncclCommDestroy", destroy);
    find(library, "ncclCommAbort", abort);
  }

  /// Throws if a call failed. A call in progress is no failure.
  void require(ncclResult_t result, const char* call, ncclComm_t communicator) const {
    if (result == ncclSuccess || result == ncclInProgress) return;
    const char* detail = get_last_error(communicator);
    std::string text = std::string(call) + ": " + get_error_string(result);
    if (detail != nullptr && *detail != '\0') text += ": " + std::string(detail);
    throw RuntimeError(text);
  }

  int version = 0;
  decltype(&ncclGetVersion) get_version = nullptr;
  decltype(&ncclGetUniqueId) get_unique_id = nullptr;
  decltype(&ncclCommInitRankConfig) init_rank = nullptr;
  decltype(&ncclCommGetAsyncError) get_async_error = nullptr;
  decltype(&ncclGetErrorString) get_error_string = nullptr;
  decltype(&ncclGetLastError) get_last_error = nullptr;
  decltype(&ncclAllReduce) all_reduce = nullptr;
  decltype(&ncclAllGather) all_gather = nullptr;
  decltype(&ncclReduceScatter) reduce_scatter = nullptr;
  decltype(&ncclBroadcast) broadcast = nullptr;
  decltype(&ncclSend) send = nullptr;
  decltype(&ncclRecv) receive = nullptr;
  decltype(&ncclGroupStart) group_start = nullptr;
  decltype(&ncclGroupEnd) group_end = nullptr;
  decltype(&ncclCommFinalize) finalize = nullptr;
  decltype(&ncclCommDestroy) destroy = nullptr;
  decltype(&ncclCommAbort) abort = nullptr;
};

LoadedNccl::LoadedNccl(const std::string& library) : functions_(std::make_unique<const Functions>(load(library))) {}
LoadedNccl::~LoadedNccl() = default;

std::string LoadedNccl::version() const { return version_text(functions_->version); }

std::string LoadedNccl::make_id() {
  ncclUniqueId id{};
  functions_->require(functions_->get_unique_id(&id), "ncclGetUniqueId", nullptr);
  return {id.internal, sizeof id.internal};
}

void* LoadedNccl::begin_communicator(const std::string& id, int size, int index, int blocks) {
  ncclUniqueId unique{};
  if (id.size() != sizeof unique.internal) throw RuntimeError("an id of NCCL has a wrong length");
  std::memcpy(unique.internal, id.data(), id.size());
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  // NCCL's configuration calls a block a CTA.
  if (blocks > 0) config.maxCTAs = blocks;
  ncclComm_t communicator = nullptr;
  functions_->require(functions_->init_rank(&communicator, size, unique, index, &config), "ncclCommInitRankConfig",
                      communicator);
  return communicator;
}

bool LoadedNccl::is_ready(void* communicator) {
  ncclResult_t state = ncclSuccess;
  functions_->require(functions_->get_async_error(handle(communicator), &state), "ncclCommGetAsyncError",
                      handle(communicator));
  functions_->require(state, "NCCL", handle(communicator));
  return state == ncclSuccess;
}

void LoadedNccl::all_reduce(void* communicator, void* stream, const void* input, void* output, std::int64_t elements,
                            DType dtype, Reduction reduction) {
  functions_->require(functions_->all_reduce(input, output, count(elements), data_type(dtype), operation(reduction),
                                             handle(communicator), cuda(stream)),
                      "ncclAllReduce", handle(communicator));
}

void LoadedNccl::all_gather(void* communicator, void* stream, const void* input, void* output, std::int64_t elements,
                            DType dtype) {
  functions_->require(
      functions_->all_gather(input, output, count(elements), data_type(dtype), handle(communicator), cuda(stream)),
      "ncclAllGather", handle(communicator));
}

void LoadedNccl::reduce_scatter(void* communicator, void* stream, const void* input, void* output,
                                std::int64_t output_elements, DType dtype, Reduction reduction) {
  functions_->require(functions_->reduce_scatter(input, output, count(output_elements), data_type(dtype),
                                                 operation(reduction), handle(communicator), cuda(stream)),
                      "ncclReduceScatter", handle(communicator));
}

void LoadedNccl::broadcast(void* communicator, void* stream, const void* input, void* output, std::int64_t elements,
                           DType dtype, int root) {
  functions_->require(
      functions_->broadcast(input, output, count(elements), data_type(dtype), root, handle(communicator), cuda(stream)),
      "ncclBroadcast", handle(communicator));
}

void LoadedNccl::send(void* communicator, void* stream, const void* data, std::int64_t bytes, int peer) {
  functions_->require(functions_->send(data, count(bytes), ncclInt8, peer, handle(communicator), cuda(stream)),
                      "ncclSend", handle(communicator));
}

void LoadedNccl::receive(void* communicator, void* stream, void* data, std::int64_t bytes, int peer) {
  functions_->require(functions_->receive(data, count(bytes), ncclInt8, peer, handle(communicator), cuda(stream)),
                      "ncclRecv", handle(communicator));
}

void LoadedNccl::begin_group() { functions_->require(functions_->group_start(), "ncclGroupStart", nullptr); }
void LoadedNccl::end_group() { functions_->require(functions_->group_end(), "ncclGroupEnd", nullptr); }

void LoadedNccl::finalize(void* communicator) {
  functions_->require(functions_->finalize(handle(communicator)), "ncclCommFinalize", handle(communicator));
}

void LoadedNccl::destroy(void* communicator) {
  functions_->require(functions_->destroy(handle(communicator)), "ncclCommDestroy", nullptr);
}

void LoadedNccl::abort(void* communicator) noexcept { functions_->abort(handle(communicator)); }

}  // namespace strata::nccl

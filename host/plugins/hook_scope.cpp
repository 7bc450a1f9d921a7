#include "plugins/hook_scope.hpp"

#include <array>
#include <atomic>
#include <csignal>
#include <cstddef>
#include <memory>
#include <string_view>

namespace strata::host {
namespace {

/// A prepared text. Its last byte is always zero, so that a reader in a signal handler stays inside of it.
struct Slot {
  std::atomic<bool> is_taken{false};
  std::array<char, 1024> text{};
};

/// Hooks that run at once, on all threads. More are not noted.
constexpr int kSlots = 256;

// Global, because a signal handler has no other way to read data.
constinit std::array<Slot, kSlots> slots;
static_assert(std::atomic<bool>::is_always_lock_free);

/// The slot of the innermost hook of this thread; -1: none.
constinit thread_local int current = -1;

/// A thread's stack for signal handlers. It replaces none that exists.
class HandlerStack {
 public:
  HandlerStack() {
    stack_t existing{};
    if (::sigaltstack(nullptr, &existing) != 0 || (existing.ss_flags & SS_DISABLE) == 0) return;
    memory_ = std::make_unique<std::byte[]>(kBytes);
    stack_t stack{};
    stack.ss_sp = memory_.get();
    stack.ss_size = kBytes;
    ::sigaltstack(&stack, nullptr);
  }
  ~HandlerStack() {
    if (!memory_) return;
    stack_t none{};
    none.ss_flags = SS_DISABLE;
    ::sigaltstack(&none, nullptr);
  }
  HandlerStack(const HandlerStack&) = delete;
  HandlerStack& operator=(const HandlerStack&) = delete;

 private:
  static constexpr std::size_t kBytes = 65536;
  std::unique_ptr<std::byte[]> memory_;
};

int take_slot() {
  for (int i = 0; i < kSlots; ++i) {
    std::atomic<bool>& is_taken = slots[static_cast<std::size_t>(i)].is_taken;
    if (!is_taken.load(std::memory_order_relaxed) && !is_taken.exchange(true)) return i;
  }
  return -1;
}

void fill(Slot& slot, const std::string& plugin, const char* hook) {
  std::size_t at = 0;
  const auto append = [&](std::string_view text) { at += text.copy(slot.text.data() + at, slot.text.size() - 1 - at); };
  append(plugin);
  append(": hook '");
  append(hook);
  append("'");
  slot.text[at] = '\0';
}

}  // namespace

HookScope::HookScope(const std::string& plugin, const char* hook) : slot_(take_slot()), outer_(current) {
  static thread_local const HandlerStack stack;
  static_cast<void>(stack);
  if (slot_ < 0) return;
  fill(slots[static_cast<std::size_t>(slot_)], plugin, hook);
  current = slot_;
}

HookScope::~HookScope() {
  current = outer_;
  if (slot_ >= 0) slots[static_cast<std::size_t>(slot_)].is_taken = false;
}

bool runs_hook() { return current >= 0; }

void visit_running_hooks(void (*write)(const char* text)) {
  if (runs_hook()) return write(slots[static_cast<std::size_t>(current)].text.data());
  for (const Slot& slot : slots) {
    if (slot.is_taken) write(slot.text.data());
  }
}

}  // namespace strata::host

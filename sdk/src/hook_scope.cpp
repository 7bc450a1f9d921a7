#include "strata/internal/hook_scope.hpp"

#include <array>
#include <atomic>
#include <csignal>
#include <cstddef>
#include <memory>
#include <mutex>
#include <set>

namespace strata {
namespace {

/// What one thread runs. The thread writes, and any thread or signal handler reads.
struct Note {
  std::atomic<bool> is_taken{false};
  std::atomic<const char*> plugin{nullptr};
  /// Null: no hook.
  std::atomic<const char*> hook{nullptr};
  std::atomic<std::uint64_t> moves{0};
};

/// Threads whose hooks other threads can read.
constexpr std::size_t kNotes = 256;

// Global, because a signal handler has no other way to read data.
constinit std::array<Note, kNotes> notes;
static_assert(std::atomic<const char*>::is_always_lock_free && std::atomic<std::uint64_t>::is_always_lock_free);

/// For a thread that found no free note. Its own signal handler can still read it.
[[gnu::tls_model("initial-exec")]] constinit thread_local Note spare;

/// The note of this thread; null before its first hook. The model of both variables spares a call for each access, of
/// which there are four at every launch.
[[gnu::tls_model("initial-exec")]] constinit thread_local Note* mine = nullptr;

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

Note* take_note() {
  for (Note& note : notes) {
    if (!note.is_taken.load(std::memory_order_relaxed) && !note.is_taken.exchange(true)) return &note;
  }
  return &spare;
}

void set(Note& note, const char* plugin, const char* hook) {
  // Without a hook, nobody reads the plugin. So no reader takes one hook for another plugin's.
  note.hook.store(nullptr, std::memory_order_release);
  note.plugin.store(plugin, std::memory_order_release);
  note.hook.store(hook, std::memory_order_release);
  note.moves.store(note.moves.load(std::memory_order_relaxed) + 1, std::memory_order_release);
}

/// The note of a thread, from its first hook to its end.
class ThreadNote {
 public:
  ThreadNote() { mine = take_note(); }
  ~ThreadNote() {
    Note* note = mine;
    if (note == &spare) return;
    // A hook that calls exit() still runs, and later destructors of the thread may run others.
    set(spare, note->plugin, note->hook);
    mine = &spare;
    note->hook = nullptr;
    note->is_taken = false;
  }
  ThreadNote(const ThreadNote&) = delete;
  ThreadNote& operator=(const ThreadNote&) = delete;

 private:
  HandlerStack stack_;
};

Note& note_of_thread() {
  if (mine == nullptr) {
    static thread_local const ThreadNote note;
    static_cast<void>(note);
  }
  return *mine;
}

}  // namespace

LastingText::LastingText(const std::string& text) {
  // Never destroyed: a program that dies in a destructor reads them too.
  static std::mutex& mutex = *new std::mutex;
  static std::set<std::string>& texts = *new std::set<std::string>;
  const std::lock_guard lock(mutex);
  text_ = texts.insert(text).first->c_str();
}

HookScope::HookScope(LastingText plugin, const char* hook) {
  Note& note = note_of_thread();
  outer_plugin_ = note.plugin.load(std::memory_order_relaxed);
  outer_hook_ = note.hook.load(std::memory_order_relaxed);
  set(note, plugin.get(), hook);
}

HookScope::~HookScope() { set(*mine, outer_plugin_, outer_hook_); }

bool runs_hook() { return mine != nullptr && mine->hook != nullptr; }

void visit_running_hooks(void (*write)(const char* plugin, const char* hook)) {
  if (runs_hook()) return write(mine->plugin, mine->hook);
  for (const Note& note : notes) {
    const char* hook = note.hook;
    if (hook != nullptr) write(note.plugin, hook);
  }
}

std::vector<RunningHook> running_hooks() {
  std::vector<RunningHook> running;
  for (std::size_t i = 0; i < notes.size(); ++i) {
    const std::uint64_t moves = notes[i].moves;
    const RunningHook hook{i, notes[i].plugin, notes[i].hook, moves};
    // A thread that moves meanwhile does not hang.
    if (hook.hook != nullptr && notes[i].moves == moves) running.push_back(hook);
  }
  return running;
}

}  // namespace strata

// The life of an executor's threads.
//
// A simulator that does not come back cannot be ended from outside, so its thread is left to itself. Whatever
// it may still touch stays alive and is used for nothing else: its env's slot, the job (which keeps the
// caller's memory), and, once the pool is closed, the pool. Should it come back it finds that its visit was
// given up, and ends; the env may then be reset.
#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <cstdio>
#include <new>
#include <string>
#include <system_error>
#include <utility>

#include "cpu.h"
#include "errors.h"
#include "perturb.h"
#include "threads/thread_executor.h"

namespace torchrl_pool::core {
namespace {

using Clock = EventCount::Clock;

constexpr auto kForGood = std::chrono::hours(1);

// Signals are the caller's business, but for those that say what this very thread has done: a handler that
// reports crashes must see them.
void BlockSignals() {
  sigset_t blocked;
  sigfillset(&blocked);
  for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP, SIGSYS}) {
    sigdelset(&blocked, signal);
  }
  pthread_sigmask(SIG_BLOCK, &blocked, nullptr);
}

std::string Seconds(Clock::duration time) {
  char text[32];
  std::snprintf(text, sizeof text, "%g s", std::chrono::duration<double>(time).count());
  return text;
}

}  // namespace

void ThreadExecutor::Start() {
  std::lock_guard lock(mutex_);
  for (int home = 0; home < num_threads(); ++home) {
    if (!StartThread(home)) {
      throw PoolError("cannot start thread " + std::to_string(home) + " of " + std::to_string(num_threads()));
    }
  }
}

bool ThreadExecutor::StartThread(int home) {
  std::unique_ptr<Thread> thread;
  try {
    thread = std::make_unique<Thread>();
    thread->scratch = std::make_unique<Scratch>(envs_.layout());
    thread->thread = std::thread(&ThreadExecutor::ThreadMain, this, home, std::ref(*thread));
  } catch (const std::system_error&) {
    return false;  // the system has no more of them
  } catch (const std::bad_alloc&) {
    return false;  // or no memory for it
  }
  home_thread(home).thread = std::move(thread);
  return true;
}

void ThreadExecutor::ThreadMain(int home, Thread& thread) {
  BlockSignals();
  if (!options_.thread_affinity.empty()) {
    // The first processor is for thread 1, since thread 0 mostly sleeps.
    const int index = (home + num_threads() - 1) % num_threads();
    PinThisThread(
        options_.thread_affinity[static_cast<std::size_t>(index) % options_.thread_affinity.size()]);
  }
  HomeThread& me = home_thread(home);
  VisitWatch* watch = options_.step_timeout ? &thread.watch : nullptr;
  while (WorkUntilNone(home, *thread.scratch, watch)) {
    const std::uint32_t key = me.parked.PrepareWait();
    if (stop_.load(std::memory_order_acquire) || !me.queue.empty()) {
      me.parked.CancelWait();
    } else {
      me.parked.Wait(key, kForGood);
    }
    Perturb();
  }
  thread.ended.store(true, std::memory_order_release);
  ended_.Notify();
}

// ---- those that hang ----------------------------------------------------------------------------

// Visits that have taken too long have failed; others take the places of their threads.
void ThreadExecutor::GiveUpHung(Clock::time_point since) {
  if (!options_.step_timeout) return;
  std::vector<VisitWatch::Visit> given_up;
  {
    Perturb();
    std::lock_guard lock(mutex_);
    // Who has given a visit up alone can report it: no memory may be missing from there on.
    const auto num_homes = static_cast<std::size_t>(num_threads());
    given_up.reserve(num_homes);
    hung_.reserve(hung_.size() + num_homes);
    const auto now = Clock::now();
    for (int home = 0; home < num_threads(); ++home) {
      std::unique_ptr<Thread>& thread = home_thread(home).thread;
      if (thread) {
        const auto visit = thread->watch.GiveUp(*options_.step_timeout, now, since);
        if (!visit) continue;
        visit->job->users.fetch_add(1, std::memory_order_relaxed);
        hung_.push_back({visit->env, std::move(thread), visit->job});
        given_up.push_back(*visit);
      }
      // Where that fails, the next one who waits tries again.
      if (!stop_.load(std::memory_order_relaxed)) StartThread(home);
    }
  }
  for (const VisitWatch::Visit& visit : given_up) {
    const Result failed[] = {Result::kFailed};
    const std::span envs(&visit.env, 1);
    std::vector<EnvFault> faults;
    try {
      faults.push_back(
          {visit.env, "it has not come back within " + Seconds(*options_.step_timeout), visit.step, true});
    } catch (const std::bad_alloc&) {
      Lose(*visit.job, envs, std::current_exception());
      continue;
    }
    Deliver(*visit.job, envs, failed, faults);
  }
}

void ThreadExecutor::FreeHung() {
  if (!options_.step_timeout) return;
  std::vector<Hung> ended;
  {
    Perturb();
    std::lock_guard lock(mutex_);
    const auto first = std::partition(hung_.begin(), hung_.end(), [](const Hung& hung) {
      return !hung.thread->ended.load(std::memory_order_acquire);
    });
    ended.assign(std::make_move_iterator(first), std::make_move_iterator(hung_.end()));
    hung_.erase(first, hung_.end());
  }
  // Without the lock: the caller's memory, which goes with a job, may have locks of its own.
  for (Hung& hung : ended) {
    hung.thread->thread.join();
    jobs_.Drop(*hung.job);
  }
}

std::optional<std::uint32_t> ThreadExecutor::FindHung(std::span<const std::uint32_t> envs) const {
  if (!options_.step_timeout) return std::nullopt;
  std::lock_guard lock(mutex_);
  for (const Hung& hung : hung_) {
    if (std::binary_search(envs.begin(), envs.end(), hung.env)) return hung.env;
  }
  return std::nullopt;
}

// ---- the end ------------------------------------------------------------------------------------

void ThreadExecutor::Stop() {
  stop_.store(true, std::memory_order_release);
  for (const auto& home_thread : home_threads_) home_thread->parked.Notify();
}

bool ThreadExecutor::WaitForThreads(InterruptCheck interrupted) {
  const auto begin = Clock::now();
  while (true) {
    const std::uint32_t key = ended_.PrepareWait();
    if (Join()) {
      ended_.CancelWait();
      return true;
    }
    ended_.Wait(key, kInterruptPeriod);
    GiveUpHung(begin);
    if (interrupted()) return false;
  }
}

// Takes no memory: where there is none, a thread that was to be joined would be lost.
bool ThreadExecutor::Join() {
  FreeHung();
  bool all = true;
  std::lock_guard lock(mutex_);
  for (const auto& home_thread : home_threads_) {
    std::unique_ptr<Thread>& thread = home_thread->thread;
    if (!thread) continue;
    if (thread->ended.load(std::memory_order_acquire)) {
      thread->thread.join();
      thread.reset();
    } else {
      all = false;
    }
  }
  return all;
}

}  // namespace torchrl_pool::core

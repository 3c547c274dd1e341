// The pool: the interface of the core. It says what may be submitted, waited for and received, and when.
//
// Work is always a job: Begin, fill in, Submit, Wait. An asynchronous send is a job too, whose results go to
// the outbox one by one. Any number of jobs may be in flight, from any threads; an env is in at most one.
//
// Every use of an env is an interval during which no other thread may use it: a step or a reset from Submit
// to the end of Wait; saving, loading, rendering and calls of Python code within a Touch.
//
// `mutex_` guards the table of envs and the pool's lifetime; the executor, the outbox and the job store have
// locks of their own. No lock is held while an env works.
#ifndef TORCHRL_POOL_CORE_POOL_H_
#define TORCHRL_POOL_CORE_POOL_H_

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "env_table.h"
#include "executor.h"
#include "job.h"
#include "job_store.h"
#include "outbox.h"
#include "threads/thread_executor.h"
#include "workers/worker_executor.h"

namespace torchrl_pool::core {

struct PoolOptions {
  ThreadOptions threads;
  std::optional<WorkerOptions> workers;  // set: worker processes step the envs, not threads
  LayoutOptions layout;
};

class Pool {
 public:
  using InterruptCheck = Executor::InterruptCheck;

  // Creates the simulators, in parallel, each by its home. Throws StatusError, EnvFailure or Interrupted.
  static std::unique_ptr<Pool> Open(std::vector<EnvRequest> envs, const PoolOptions& options,
                                    InterruptCheck interrupted);

  // Closes and frees the pool, and returns true. Returns false if a thread hangs inside a simulator: it may
  // still use the pool's memory, which a later Retire frees. Throws Interrupted once all of that is done.
  static bool Retire(std::unique_ptr<Pool> pool, InterruptCheck interrupted);

  // Closes it. Must not be called where a thread hangs: use Retire.
  ~Pool();
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  // Whether this is the copy of a forked child. Its threads exist in the parent only, and may have held locks
  // at the fork: such a pool can be neither used nor destroyed, only leaked.
  bool forked() const;

  const Layout& layout() const { return envs_.layout(); }
  std::uint32_t num_envs() const { return envs_.size(); }
  int num_threads() const { return executor_->num_threads(); }
  // Null where the envs are in this process. Throws PoolError in a forked child.
  WorkerExecutor* workers();

  // ---- jobs: any threads. All throw PoolError when the rules are broken. ----

  // A job to fill in: for all envs, its batches with the layout's columns, null bases and contiguous strides.
  Job& Begin(Op op);
  // Returns a job that will not be submitted.
  void Drop(Job& job) { jobs_.Drop(job); }
  // Restricts a job to the envs whose mask is not zero, or to a range (throws StatusError).
  void Select(Job& job, const std::uint8_t* mask);
  void Select(Job& job, EnvRange envs);

  // Submits the job. kAtOnce: the caller waits for it next. kLater: the pool's threads do the work, and the
  // pool keeps the job's owner alive meanwhile. First waits for jobs abandoned by interrupted calls, and for
  // other threads' touches of these envs. On an exception no env has changed and the job has been returned.
  enum class Await { kAtOnce, kLater };
  void Submit(Job& job, Await await, InterruptCheck interrupted);

  // Helps until the job has finished, and returns it to the store. Returns how many rows of the root hold the
  // first observation of a new episode; if any do, the other rows have been copied there from `out`. Throws
  // EnvFailure for envs that failed, after all others have finished. Throws Interrupted: a job submitted with
  // kLater stays in flight; one with kAtOnce is abandoned, and its envs must be reset once they have stopped.
  // `meanwhile` is called first if other threads already work on the job; an exception from it counts as an
  // interrupt.
  std::uint32_t Wait(Job& job, InterruptCheck interrupted, const std::function<void()>& meanwhile = nullptr);

  // ---- results one by one: any threads ----

  // Where results are written: memory for the rows of all envs, which must stay valid until Close has
  // returned.
  void PrepareAsync(const Batch& out, const Batch& root);

  // Submits these envs; row i of `actions` belongs to the i-th of them (null for kReset) and is copied.
  // `alone`: sent by a plain index, and received by it. If it throws (StatusError, PoolError), nothing has
  // changed.
  void Send(Op op, std::span<const std::uint32_t> envs, const std::byte* const* actions, bool alone,
            InterruptCheck interrupted);

  // As Outbox::Receive and ReceiveAlone. The rows stay where they are until Take or PutBack. Throws
  // EnvFailure for envs that failed, which must be reset; other results stay ready for the next call.
  std::optional<Outbox::Received> Receive(Op op, std::size_t least, std::size_t most,
                                          std::optional<Outbox::Clock::duration> timeout,
                                          InterruptCheck interrupted);
  std::optional<Outbox::Received> ReceiveAlone(Op op, std::uint32_t env,
                                               std::optional<Outbox::Clock::duration> timeout,
                                               InterruptCheck interrupted);

  // Copies the rows of received envs, one after the other, to these addresses (null: not wanted): rows of
  // `out`, and, for kStepAndReset, of the root. Then the envs may be sent again.
  void Take(const Outbox::Received& received, const std::byte* const* out, const std::byte* const* root);
  void PutBack(const Outbox::Received& received) { outbox_.PutBack(received); }

  // ---- states and rendering: any thread; not for envs in flight ----

  // While it lives, its thread has exclusive use of some envs without a job; other threads that want them
  // wait.
  class Touch {
   public:
    enum class By { kPool, kCaller };  // by the latter: the pool may be closed meanwhile

    // Throws PoolError where one of them is in flight, StatusError where there is no such env, Interrupted.
    Touch(Pool& pool, std::vector<std::uint32_t> envs, By by, InterruptCheck interrupted);
    ~Touch();
    Touch(const Touch&) = delete;
    Touch& operator=(const Touch&) = delete;

   private:
    friend class Pool;
    Pool& pool_;
    const std::vector<std::uint32_t> envs_;
    const By by_;
    const std::thread::id thread_ = std::this_thread::get_id();
  };

  std::vector<std::uint8_t> Save(std::uint32_t env_index, InterruptCheck interrupted = NeverAsks);
  // If the state is refused, nothing has changed.
  void Load(std::uint32_t env_index, std::span<const std::uint8_t> bytes,
            InterruptCheck interrupted = NeverAsks);
  std::pair<std::int64_t, std::int64_t> RenderSize(std::uint32_t env_index,  // height, width
                                                   InterruptCheck interrupted = NeverAsks);
  void Render(std::uint32_t env_index, std::uint8_t* rgb, InterruptCheck interrupted = NeverAsks);

  // Waits for calls of other threads, ends the pool's threads and destroys the simulators, except those in
  // which a thread hangs. Any thread; idempotent. Throws Interrupted: either nothing has changed, because
  // another thread's call did not return, or the pool is closed and the threads that did not end are
  // abandoned.
  void Close(InterruptCheck interrupted = NeverAsks);

 private:
  static bool NeverAsks() { return false; }
  Pool(std::vector<EnvRequest> envs, const PoolOptions& options);
  void Start(InterruptCheck interrupted);

  void CheckNotForked() const;
  // Both lock mutex_, or throw PoolError if the pool cannot be used. The second one first waits for abandoned
  // jobs and for other threads' touches of these envs.
  std::unique_lock<std::mutex> Lock() const;
  std::unique_lock<std::mutex> LockSettled(std::span<const std::uint32_t> envs, InterruptCheck interrupted);
  void CheckNotHung(std::span<const std::uint32_t> envs) const;
  // Holds the lock, except while it waits.
  void WaitForTouches(std::unique_lock<std::mutex>& lock, std::span<const std::uint32_t> envs,
                      InterruptCheck interrupted);
  const Touch* FindTouch(std::span<const std::uint32_t> envs) const;

  std::uint32_t Finish(Job& job);
  void GiveUp(Job& job, bool is_abandoned);
  void SettleFinished();
  void Leave();
  std::optional<Outbox::Received> Checked(std::optional<Outbox::Received> received);
  bool FreeAll();

  const unsigned fork_generation_;
  EnvTable envs_;  // guarded by mutex_
  JobStore jobs_;
  // Its threads use all of the above, and the outbox.
  const std::unique_ptr<Executor> executor_;
  Outbox outbox_;

  mutable std::mutex mutex_;
  std::condition_variable left_;  // a waiting thread has left, a touch has ended, or the pool is closed
  std::vector<std::thread::id> waiting_;
  std::vector<Job*> for_later_;  // in flight, submitted with kLater
  std::vector<Job*> abandoned_;  // by interrupted calls; in flight or just finished
  std::vector<const Touch*> touches_;
  bool closing_ = false, closed_ = false;
  std::vector<ZeroedBytes> async_actions_;  // per action: rows of all envs
  Batch async_out_, async_root_;
};

}  // namespace torchrl_pool::core

#endif  // TORCHRL_POOL_CORE_POOL_H_

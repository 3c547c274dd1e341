// The executor as its callers see it: what is submitted, waited for and received, and when that is allowed.
//
// There is one way to have envs work: a job is begun, filled in, submitted, and waited for, at once or
// later. What is sent asynchronously is a job too, whose results go to the outbox one by one. Any number
// of jobs may be in flight, from any threads: an env is in one of them at most.
//
// Whatever is done with an env is an interval in which it is nobody else's: a step or a reset from Submit to
// the end of Wait, a look at its state or a picture in a Touch.
//
// Who guards what: `mutex_` the table of envs and the pool's own life; the executor, the outbox and the box
// of jobs look after themselves. No lock is held while an env works.
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
  std::optional<WorkerOptions> workers;  // then they are the executor, and not threads
  LayoutOptions layout;
};

class Pool {
 public:
  using InterruptCheck = Executor::InterruptCheck;

  // Creates the simulators, in parallel, each by its home. Throws StatusError, EnvFailure or Interrupted.
  static std::unique_ptr<Pool> Open(std::vector<EnvRequest> envs, const PoolOptions& options,
                                    InterruptCheck interrupted);

  // Closes the pool and frees it; true. But a thread that hangs inside a simulator may still use all that the
  // pool has: then that stays, for a later Retire to free, and this is false. Throws Interrupted when all is
  // done.
  static bool Retire(std::unique_ptr<Pool> pool, InterruptCheck interrupted);

  // Closes it. Not where a thread hangs: Retire does.
  ~Pool();
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  // Whether this is a copy in a forked child. Its threads were left behind in the parent, perhaps holding
  // locks: such a pool can be neither used nor destroyed, only forgotten.
  bool forked() const;

  const Layout& layout() const { return envs_.layout(); }
  std::uint32_t num_envs() const { return envs_.size(); }
  int num_threads() const { return executor_->num_threads(); }
  // Null where the envs are in this process. Throws PoolError in a forked child.
  WorkerExecutor* workers();

  // ---- jobs: any threads. All throw PoolError when the rules are broken. ----

  // A job to fill in: for all envs, with batches of the layout's columns, null bases and contiguous
  // strides.
  Job& Begin(Op op);
  // Instead of Submit: gives back what has not been submitted.
  void Drop(Job& job) { jobs_.Drop(job); }
  // Limits it to the envs where the mask is not zero, or to consecutive ones (throws StatusError).
  void Select(Job& job, const std::uint8_t* mask);
  void Select(Job& job, EnvRange envs);

  // Puts it in flight. At once: the caller goes on to wait for it. Otherwise the pool's threads do the work,
  // and the pool holds on to the job's owner while they do. What an interrupted call has left behind, and
  // other threads' touches of these envs, are waited for first. If it throws, nothing has changed, and the
  // job is gone.
  enum class Await { kAtOnce, kLater };
  void Submit(Job& job, Await await, InterruptCheck interrupted);

  // Helps until the job has finished, which is then gone. Returns how many rows of the root hold a new
  // episode's first observation; if there are any, the others have been copied there from `out`. Throws
  // EnvFailure for envs that failed, after all others have finished. Throws Interrupted: a job to be
  // awaited later is still in flight; one that was awaited at once is given up, and its envs must be reset
  // once they have come to rest. `meanwhile` is called first where other threads are at work already, and
  // else not at all; when it throws, that is as an interrupt is.
  std::uint32_t Wait(Job& job, InterruptCheck interrupted, const std::function<void()>& meanwhile = nullptr);

  // ---- results one by one: any threads ----

  // Where they are written: rows for all envs, which stay what they are until Close has returned.
  void PrepareAsync(const Batch& out, const Batch& root);

  // Starts the work of these envs; the i-th row of `actions` is the i-th env's (null for kReset) and is
  // copied. Nothing has changed if it throws: StatusError, PoolError.
  void Send(Op op, std::span<const std::uint32_t> envs, const std::byte* const* actions, bool alone,
            InterruptCheck interrupted);

  // As Outbox::Receive and ReceiveAlone: the rows of these envs are there, until they are taken or put back.
  // Throws EnvFailure for envs that failed, which must be reset; what is ready waits for the next call.
  std::optional<Outbox::Received> Receive(Op op, std::size_t least, std::size_t most,
                                          std::optional<Outbox::Clock::duration> timeout,
                                          InterruptCheck interrupted);
  std::optional<Outbox::Received> ReceiveAlone(Op op, std::uint32_t env,
                                               std::optional<Outbox::Clock::duration> timeout,
                                               InterruptCheck interrupted);

  // Copies the rows of received envs, one after the other, to where the bases point (null: not wanted): those
  // of `out`, and of the root that follows, where there is one (kStepAndReset). Then the envs may be sent
  // again.
  void Take(const Outbox::Received& received, const std::byte* const* out, const std::byte* const* root);
  void PutBack(const Outbox::Received& received) { outbox_.PutBack(received); }

  // ---- state and pictures: any thread, not of an env in flight. ----

  // While it lives, one thread works with some envs, other than by a job: those who want them wait.
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
  // Where the state is refused, nothing has changed.
  void Load(std::uint32_t env_index, std::span<const std::uint8_t> bytes,
            InterruptCheck interrupted = NeverAsks);
  std::pair<std::int64_t, std::int64_t> RenderSize(std::uint32_t env_index,  // height, width
                                                   InterruptCheck interrupted = NeverAsks);
  void Render(std::uint32_t env_index, std::uint8_t* rgb, InterruptCheck interrupted = NeverAsks);

  // Waits for those who wait, ends the threads and destroys the simulators, but for those in which a thread
  // hangs. Any thread; idempotent. Throws Interrupted: either nothing has changed, because another thread's
  // call would not end, or the pool is closed and threads that would not end are left to themselves.
  void Close(InterruptCheck interrupted = NeverAsks);

 private:
  static bool NeverAsks() { return false; }
  Pool(std::vector<EnvRequest> envs, const PoolOptions& options);
  void Start(InterruptCheck interrupted);

  void CheckNotForked() const;
  // Lock mutex_ if the pool can be used, and throw PoolError otherwise: whatever its envs do; once what
  // interrupted calls have left behind is over, and no other thread touches these envs.
  std::unique_lock<std::mutex> Lock() const;
  std::unique_lock<std::mutex> LockSettled(std::span<const std::uint32_t> envs, InterruptCheck interrupted);
  void CheckNotHung(std::span<const std::uint32_t> envs) const;
  // Under the lock, but for while it waits.
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
  // Whose threads use all of the above, and the outbox.
  const std::unique_ptr<Executor> executor_;
  Outbox outbox_;

  mutable std::mutex mutex_;
  std::condition_variable left_;  // a waiting thread has gone, a touch is over, or the pool is closed
  std::vector<std::thread::id> waiting_;
  std::vector<Job*> for_later_;  // in flight, to be awaited later
  std::vector<Job*> abandoned_;  // given up by an interrupt, in flight or just finished
  std::vector<const Touch*> touches_;
  bool closing_ = false, closed_ = false;
  std::vector<ZeroedBytes> async_actions_;  // per action: rows of all envs
  Batch async_out_, async_root_;
};

}  // namespace torchrl_pool::core

#endif  // TORCHRL_POOL_CORE_POOL_H_

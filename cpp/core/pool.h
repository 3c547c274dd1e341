// The pool: the interface of the core. It says what may be submitted, waited for and received, and when.
//
// Every operation is a job: Begin, fill in, Submit, and then either Wait, or Receive where results are
// delivered one by one. Any number of jobs may be in flight, from any threads; an env is in at most one.
//
// Whoever uses envs is in one table, `uses_`. A use lasts from Submit to the end of Wait, or as long as an
// ExclusiveAccess lives, and what another call that wants these envs does depends on its kind alone:
//
//   use                                   another call that wants the envs     Close
//   a reset or a step that a call awaits  is refused: they are in flight       waits for that call
//   a save, a load or a picture           waits for its end                    waits for that call
//   a job that is to be waited for later  is refused                           ends it
//   an abandoned job                      waits for it; then they are free     ends it
//   exclusive access                      waits for its end                    waits for its end
//
// Envs whose results are delivered one by one are in no use: the outbox knows them until they are received.
//
// What protects what:
//
//   constant                     the layout, which configuration an env has, the number of envs
//   Pool::mutex_                 `uses_`; what each env may do next, and why one has failed (`envs_`, all but
//                                its slots); where asynchronous results are written; whether it is closed
//   whoever works on an env      its slot, and its rows of the job's batches
//   the submitter of a job       the job, before it is in flight and after it has finished
//   Job::faults_mutex            its faults and its error, in flight; its counts are atomics
//   locks of their own           the job store, the outbox, the executor and its order of learning
//
// No lock is held while an env works, or Python code runs. Of two locks only these are held together, the
// first one first: Pool::mutex_, and then one of the executor, the outbox or the job store.
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

  // Closes and frees the pool, and returns true. Returns false where a thread hangs inside a simulator, or in
  // a forked child: then the pool's memory, which is still in use, is never freed. Throws Interrupted once
  // all of that is done.
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
  // Restricts a job to the envs whose mask is not zero, to a range, or to those that are named in any order,
  // each of them once: row i of its actions is then the i-th one's, and not that of env i. Throws
  // StatusError.
  void Select(Job& job, const std::uint8_t* mask);
  void Select(Job& job, EnvRange envs);
  void Select(Job& job, std::span<const std::uint32_t> envs);

  // Submits the job. The pool keeps its owner alive until no thread can touch the memory behind it; what a
  // job with another delivery than kAwaited reads, its actions and recorded columns, is copied before this
  // returns. First waits for abandoned jobs, and for other threads' exclusive access to these envs. On an
  // exception no env has changed and the job has been returned.
  //
  // kOneByOne: the results are written to the memory of PrepareAsync, and the outbox gets them.
  void Submit(Job& job, Delivery delivery, InterruptCheck interrupted);

  // Helps until the job has finished, and returns it to the store. Returns how many rows of the root hold the
  // first observation of a new episode; if any do, the other rows have been copied there from `out`. Throws
  // EnvFailure for envs that failed, after all others have finished. Throws Interrupted: a job with kLater
  // stays in flight; one with kAwaited is abandoned, and its envs must be reset once they have stopped.
  // `meanwhile` is called first if other threads already work on the job; an exception from it counts as an
  // interrupt.
  std::uint32_t Wait(Job& job, InterruptCheck interrupted, const std::function<void()>& meanwhile = nullptr);
  // No thread will wait for this job, which is in flight with kLater. What has not begun is skipped, and the
  // next call settles it.
  void Abandon(Job& job);

  // ---- results one by one: any threads ----

  // Where results are written: memory for the rows of all envs, which must stay valid until Close has
  // returned. False: there is some already.
  bool PrepareAsync(const Batch& out, const Batch& root);

  // As Outbox::Receive and ReceiveAlone. The rows stay where they are, and the envs in flight, until Accept
  // or PutBack. Throws EnvFailure for envs that failed, which must be reset; other results stay ready.
  std::optional<Outbox::Received> Receive(Op op, std::size_t least, std::size_t most,
                                          std::optional<Outbox::Clock::duration> timeout,
                                          InterruptCheck interrupted);
  std::optional<Outbox::Received> ReceiveAlone(Op op, std::uint32_t env,
                                               std::optional<Outbox::Clock::duration> timeout,
                                               InterruptCheck interrupted);

  // Copies the rows of received envs, one after the other, to these addresses (null: not wanted): rows of
  // `out`, and, for kStepAndReset, of the root.
  void CopyRowsOf(const Outbox::Received& received, std::byte* const* out, std::byte* const* root) const;
  // The envs may be sent again.
  void Accept(Outbox::Received& received);
  // Makes the results ready once more, also after Accept as long as none of the envs was used since. False:
  // one was.
  bool PutBack(const Outbox::Received& received);

  // ---- states and pictures: any threads. Each a job for these envs, which ascend, and waited for ----

  std::vector<std::vector<std::uint8_t>> Save(std::span<const std::uint32_t> envs,
                                              InterruptCheck interrupted = NeverAsks);
  // Where a state is refused, that env has not changed; the first such StatusError is thrown after all others
  // are loaded. After Interrupted each env has its state from before, or this one.
  void Load(std::span<const std::uint32_t> envs, std::vector<std::vector<std::uint8_t>> states,
            InterruptCheck interrupted = NeverAsks);
  // uint8 [height, width, 3] each; `owner` keeps that memory alive.
  void Render(std::span<const std::uint32_t> envs, std::vector<std::uint8_t*> pictures,
              std::shared_ptr<void> owner = nullptr, InterruptCheck interrupted = NeverAsks);
  std::pair<std::int64_t, std::int64_t> RenderSize(std::uint32_t env_index) const;  // height, width

  // While it lives, its thread uses some envs without a job, between other calls.
  class ExclusiveAccess {
   public:
    // Throws PoolError where one of them is in flight, StatusError where there is no such env, Interrupted.
    ExclusiveAccess(Pool& pool, std::vector<std::uint32_t> envs, InterruptCheck interrupted);
    ~ExclusiveAccess();
    ExclusiveAccess(const ExclusiveAccess&) = delete;
    ExclusiveAccess& operator=(const ExclusiveAccess&) = delete;

   private:
    Pool& pool_;
    std::vector<std::uint32_t> envs_;  // ascending
  };

  // Waits for calls and exclusive accesses of other threads, ends the pool's threads and destroys the
  // simulators, except those in which a thread hangs. Any thread; idempotent. Throws PoolError from within a
  // call or access of the calling thread: nothing has changed. Throws Interrupted: nothing has changed, or
  // the pool is closed (`is_closed`) and threads that had not ended are abandoned.
  void Close(InterruptCheck interrupted = NeverAsks);
  bool is_closed() const;
  // Throws PoolError while the calling thread is within a call of this pool, or has exclusive access.
  void CheckNotWithin() const;

 private:
  struct Use {
    enum class Kind : std::uint8_t {
      kJob,
      kAbandonedJob,
      kAccess,
      kSettling
    };  // the last: a call's wait alone

    Kind kind;
    std::span<const std::uint32_t> envs;  // ascending
    Job* job;                             // null: exclusive access
    std::thread::id thread;               // of the call that waits, or of the access; default: no call waits

    // Another call that wants these envs waits for the end instead of being refused.
    bool is_brief() const { return kind == Kind::kAccess || (kind == Kind::kJob && IsStateOp(job->op)); }
  };

  static bool NeverAsks() { return false; }
  Pool(std::vector<EnvRequest> envs, const PoolOptions& options);
  void Start(InterruptCheck interrupted);

  void CheckNotForked() const;
  // Both lock mutex_, or throw PoolError if the pool cannot be used. The second one first waits for abandoned
  // jobs and for exclusive access to these envs.
  std::unique_lock<std::mutex> Lock() const;
  std::unique_lock<std::mutex> LockFree(std::span<const std::uint32_t> envs, InterruptCheck interrupted);
  void SettleAbandoned(std::unique_lock<std::mutex> lock, Job& job, InterruptCheck interrupted);
  void CheckNotHung(std::span<const std::uint32_t> envs) const;

  // These three under mutex_.
  std::vector<Use>::iterator FindUse(Use::Kind kind, const Job& job);
  void EndUse(std::vector<Use>::iterator use);
  void LeaveBehind(Job& job, bool is_abandoned);
  std::uint32_t Finish(Job& job);
  std::optional<Outbox::Received> Checked(std::optional<Outbox::Received> received);
  std::shared_ptr<StateOps> RunStateOps(Op op, std::span<const std::uint32_t> envs,
                                        std::shared_ptr<StateOps> ops, InterruptCheck interrupted);
  bool FreeAll();

  const unsigned fork_generation_;
  EnvTable envs_;  // guarded by mutex_
  JobStore jobs_;
  // Its threads use all of the above, and the outbox.
  const std::unique_ptr<Executor> executor_;
  Outbox outbox_;

  mutable std::mutex mutex_;
  std::condition_variable
      changed_;  // a use has ended while another call waits for that, or the pool is closed
  std::vector<Use> uses_;
  bool closing_ = false, closed_ = false;
  Batch async_out_, async_root_;
};

}  // namespace torchrl_pool::core

#endif  // TORCHRL_POOL_CORE_POOL_H_

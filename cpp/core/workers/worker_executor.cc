// Requests to workers, and the waits for their results.
#include "workers/worker_executor.h"

#include <algorithm>
#include <limits>
#include <new>
#include <utility>

#include "chain.h"
#include "cpu.h"
#include "errors.h"
#include "perturb.h"
#include "transforms/one_hot.h"

namespace torchrl_pool::core {
namespace {

// Bytes of observations that are better copied while their worker goes on.
constexpr std::size_t kWorthCopying = std::size_t{1} << 17;
// Steps that have taken so long in all say how long a step takes.
constexpr auto kEnoughSteps = std::chrono::seconds(2);
constexpr std::uint64_t kNever = std::numeric_limits<std::uint64_t>::max();

}  // namespace

WorkerExecutor::WorkerExecutor(EnvTable& envs, JobStore& jobs, WorkerOptions options)
    : Executor(envs, jobs), options_(std::move(options)), arena_(*options_.arena) {
  for (std::uint32_t env = 0; env < envs.size(); ++env) {
    remotes_.push_back({env, &arena_, options_.save, options_.load, {}});
  }
  for (const std::size_t bytes : arena_.shape().output_bytes) row_bytes_ += bytes;
  const auto& processes = options_.processes;
  may_spin_ = std::ranges::count_if(processes, [](int process) { return process >= 0; }) < AvailableCpus();
  for (std::size_t i = 0; i < options_.processes.size(); ++i) {
    workers_.push_back(std::make_unique<Worker>());
    workers_.back()->process = options_.processes[i];
    workers_.back()->pending.reserve(arena_.shape().first_env[i + 1] - arena_.shape().first_env[i]);
  }
}

int WorkerExecutor::WorkerOf(std::uint32_t env) const {
  const auto& first_env = arena_.shape().first_env;
  return static_cast<int>(std::upper_bound(first_env.begin(), first_env.end(), env) - first_env.begin()) - 1;
}

// Envs. It is not believed to have finished more than it was asked for.
std::uint64_t WorkerExecutor::FinishedBy(int index) const {
  const std::uint64_t finished = arena_.mailbox(index).finished.load(std::memory_order_acquire);
  const std::uint64_t asked =
      workers_[static_cast<std::size_t>(index)]->asked.load(std::memory_order_acquire);
  return finished <= asked ? finished : 0;
}

// ---- asking -------------------------------------------------------------------------------------

void WorkerExecutor::Begin(Job& job) {
  const std::span<const std::uint32_t> envs = job.envs;
  const auto count = static_cast<std::uint32_t>(envs.size());
  const bool is_sent = job.outbox != nullptr;
  job.plan.threads = num_threads() + 1;  // the work is elsewhere: the waiting thread is free
  job.remaining.store(count, std::memory_order_relaxed);
  TakeTicket(job);
  if (count == 0) return job.finished.store(true, std::memory_order_relaxed);
  if (IsStateOp(job.op)) return;  // the waiting thread asks the workers, in their channels
  const auto& wanted = job.out.base;
  const bool seed_only = job.op == Op::kReset && !job.entropy.empty() &&
                         std::all_of(wanted.begin(), wanted.end(), [](const auto* base) { return !base; });
  const auto& first_env = arena_.shape().first_env;
  int worker = 0;
  // The job may be over before this returns: nothing of it is read after its last envs are asked for.
  for (std::uint32_t begin = 0; begin < count;) {
    const std::uint32_t env = envs[begin];
    const Op op = job.OpOf(env);
    while (env >= first_env[static_cast<std::size_t>(worker) + 1]) ++worker;
    const std::uint32_t limit = first_env[static_cast<std::size_t>(worker) + 1];
    const auto goes_on = [&](std::uint32_t size) {
      const std::uint32_t next = env + size;
      return begin + size < count && envs[begin + size] == next && next < limit && job.OpOf(next) == op;
    };
    std::uint32_t size = 1;
    while (goes_on(size)) ++size;
    for (std::uint32_t i = begin; i < begin + size; ++i) Prepare(job, op, envs[i]);
    if (op == Op::kStep || op == Op::kStepAndReset) WriteActions(job, env, size);
    const std::uint32_t index = std::exchange(begin, begin + size);
    Ask(worker, {&job, {op, seed_only, env - first_env[static_cast<std::size_t>(worker)], size}, index});
  }
  if (is_sent) NotifyOfMore();
}

// Those who wait already look at the table of runs once more.
void WorkerExecutor::NotifyOfMore() {
  changes_.fetch_add(1, std::memory_order_seq_cst);
  if (num_receiving_.load(std::memory_order_seq_cst) > 0) arena_.bell().Ring();
}

// What the env's worker has to know besides the request.
void WorkerExecutor::Prepare(const Job& job, Op op, std::uint32_t env) {
  EnvCell& cell = arena_.cell(env);
  const EnvSlot& slot = envs_.slot(env);
  cell.step = cell.root = EnvCell::kNone;
  cell.is_last = slot.max_episode_steps > 0 && slot.elapsed_steps + 1 >= slot.max_episode_steps;
  cell.num_words = 0;
  cell.note = 0;
  if (op != Op::kReset || job.op != Op::kReset) return;
  cell.note = job.reset_note;
  if (job.entropy.empty()) return;
  const auto& words = job.entropy[env];
  const bool fits = words.size() <= EnvCell::kMaxWords;
  cell.num_words = fits ? static_cast<std::uint32_t>(words.size()) : EnvCell::kTooManyWords;
  if (fits) std::copy(words.begin(), words.end(), cell.words);
}

// As the envs take them.
void WorkerExecutor::WriteActions(const Job& job, std::uint32_t first, std::uint32_t count) {
  const auto& columns = envs_.layout().actions;
  for (std::size_t i = 0; i < columns.size(); ++i) {
    const Rows from = job.actions.RowsFrom(i, first);
    const std::size_t bytes = arena_.shape().action_bytes[i];
    if (!columns[i].one_hot) {
      CopyRows(from, {arena_.ActionRow(i, first), bytes}, bytes, count);
      continue;
    }
    for (std::uint32_t row = 0; row < count; ++row) {
      DecodeOneHot(columns[i].spec.categories,
                   reinterpret_cast<const std::int64_t*>(from.base + row * from.stride),
                   reinterpret_cast<std::int64_t*>(arena_.ActionRow(i, first + row)));
    }
  }
}

void WorkerExecutor::Ask(int index, Run run) {
  Worker& worker = *workers_[static_cast<std::size_t>(index)];
  Mailbox& mailbox = arena_.mailbox(index);
  Perturb();
  const std::lock_guard lock(mutex_);
  run.end = worker.asked.load(std::memory_order_relaxed) + run.request.count;
  worker.asked.store(run.end, std::memory_order_release);
  mailbox.asked.store(run.end, std::memory_order_relaxed);
  worker.pending.push_back(run);
  if (!worker.has_ended) return Post(index, run.request);
  End(index, worker.why);
}

// Under mutex_.
void WorkerExecutor::Post(int index, const Request& request) {
  Mailbox& mailbox = arena_.mailbox(index);
  const std::uint64_t number = workers_[static_cast<std::size_t>(index)]->posted++;
  arena_.request(index, number).store(request.Pack(), std::memory_order_relaxed);
  Perturb();
  mailbox.posted.store(number + 1, std::memory_order_seq_cst);
  mailbox.doorbell.Ring();
}

// The i-th env of a run has to do something more before its visit can go on.
void WorkerExecutor::AskMore(const Run& run, std::uint32_t i) {
  Run more = run;
  more.index = run.index + i;
  const std::uint32_t env = run.job->envs[more.index];
  const bool begins_next = IsDone(*run.job, env);
  const Op op = begins_next ? Op::kReset : run.job->op;
  more.request = {op, false, run.request.first + i, 1};
  more.turn = begins_next ? kNextEpisode : run.turn + 1;
  Prepare(*run.job, op, env);
  Ask(WorkerOf(env), more);
}

// ---- waiting ------------------------------------------------------------------------------------

WorkerExecutor::Waiter::Waiter(const Layout& layout, std::uint32_t num_envs, std::size_t num_workers)
    : scratch(layout), visit_at(num_workers, kNever), wake_at(num_workers, kNever) {
  claimed.reserve(num_envs);
  over.reserve(num_envs);
}

// Borrows a Waiter for the calling thread, while this lives.
class WorkerExecutor::WaiterInUse {
 public:
  explicit WaiterInUse(WorkerExecutor& executor) : executor_(executor) {
    {
      const std::lock_guard lock(executor.mutex_);
      if (!executor.waiters_.empty()) {
        waiter_ = std::move(executor.waiters_.back());
        executor.waiters_.pop_back();
        return;
      }
    }
    waiter_ =
        std::make_unique<Waiter>(executor.envs_.layout(), executor.envs_.size(), executor.workers_.size());
    const std::lock_guard lock(executor.mutex_);
    executor.waiters_.reserve(++executor.num_waiters_);  // so that none is lost
  }
  ~WaiterInUse() {
    const std::lock_guard lock(executor_.mutex_);
    executor_.waiters_.push_back(std::move(waiter_));
  }
  WaiterInUse(const WaiterInUse&) = delete;
  WaiterInUse& operator=(const WaiterInUse&) = delete;

  Waiter& operator*() const { return *waiter_; }

 private:
  WorkerExecutor& executor_;
  std::unique_ptr<Waiter> waiter_;
};

void WorkerExecutor::WaitFor(Job& job, InterruptCheck interrupted) {
  const auto is_over = [&] { return job.finished.load(std::memory_order_acquire); };
  if (is_over()) return;
  if (!IsStateOp(job.op)) {
    Work({&job}, is_over, Clock::time_point::max(), interrupted);
    return;
  }
  const WaiterInUse waiter(*this);
  Visit({&job, {job.op, false, 0, static_cast<std::uint32_t>(job.envs.size())}, 0}, *waiter);
}

// Workers deliver nothing by themselves: the waiting thread visits what they have finished, and is woken by
// the arena's bell.
bool WorkerExecutor::WaitUntil(EventCount&, const Condition& is_over, Clock::time_point until,
                               InterruptCheck interrupted) {
  struct Receiving {
    explicit Receiving(std::atomic<int>& count) : count(count) { ++count; }
    ~Receiving() { --count; }
    std::atomic<int>& count;
  } receiving(num_receiving_);
  return Work({}, is_over, until, interrupted);
}

// Awake for a while after each thing that happened, if such a wait was short the last time, and then asleep;
// asleep at once where each processor may have a worker: a thread that stays awake takes one of them away.
template <class IsOver>
bool WorkerExecutor::Work(const Wanted& wanted, const IsOver& is_over, Clock::time_point until,
                          InterruptCheck interrupted) {
  AdviseOnce();
  const WaiterInUse in_use(*this);
  Waiter& waiter = *in_use;
  Await(wanted, waiter);
  std::atomic<Clock::duration>& last_wait = last_waits_[wanted.job ? 0 : 1];
  const auto begin = Clock::now();
  auto since = begin, asked = begin, now = begin;
  Spin spin(kSpinForPython);
  while (!is_over()) {
    Serve();
    if (changes_.load(std::memory_order_relaxed) != waiter.changes) Await(wanted, waiter);
    const bool has_arrivals = HasArrivals(waiter);
    bool any = has_arrivals && VisitFinished(wanted, waiter);
    if (has_arrivals) Await(wanted, waiter);
    if (!any && now >= until) {
      LookAtWorkers(begin);
      VisitFinished(wanted, waiter);
      return is_over();
    }
    const bool was_long = last_wait.load(std::memory_order_relaxed) > kSpinForPython;
    if (!any && (!may_spin_ || was_long || !spin.Pause())) {
      Sleep(waiter, is_over, until);
      any = VisitFinished(wanted, waiter);
      Await(wanted, waiter);
    }
    now = Clock::now();
    if (any) {
      spin = Spin(kSpinForPython);
      last_wait.store(now - std::exchange(since, now), std::memory_order_relaxed);
    }
    if (now - asked < kInterruptPeriod || is_over()) continue;
    asked = now;
    if (interrupted()) throw Interrupted();
    LookAtWorkers(begin);
  }
  return true;
}

// What the thread at hand waits for. Of each worker's envs of a job the last one is worth being woken for:
// waking for each of them would take a processor from the workers. Many bytes are copied meanwhile.
void WorkerExecutor::Await(const Wanted& wanted, Waiter& waiter) {
  const std::uint64_t many = std::max<std::uint64_t>(1, kWorthCopying / std::max<std::size_t>(1, row_bytes_));
  waiter.changes = changes_.load(std::memory_order_seq_cst);
  const std::lock_guard lock(mutex_);
  for (std::size_t worker = 0; worker < workers_.size(); ++worker) {
    std::uint64_t first = kNever, last = kNever;
    for (const Run& run : workers_[worker]->pending) {
      if (!wanted(run)) continue;
      if (first == kNever) first = run.begin();
      last = run.end;
    }
    const bool waits = first != kNever;
    waiter.wake_at[worker] = waits && !wanted.job ? first + 1 : last;
    waiter.visit_at[worker] = waits ? std::min(waiter.wake_at[worker], first + many) : kNever;
  }
}

bool WorkerExecutor::HasArrivals(const Waiter& waiter) const {
  for (int worker = 0; worker < num_threads(); ++worker) {
    const std::uint64_t visit_at = waiter.visit_at[static_cast<std::size_t>(worker)];
    if (visit_at != kNever && FinishedBy(worker) >= visit_at) return true;
  }
  return false;
}

// Until a worker rings, since one of those who sleep waits for what it has finished; or for a while.
template <class IsOver>
void WorkerExecutor::Sleep(const Waiter& waiter, const IsOver& is_over, Clock::time_point until) {
  Doorbell& bell = arena_.bell();
  const std::uint32_t key = bell.PrepareWait();
  bool has_arrivals = is_over() || changes_.load(std::memory_order_seq_cst) != waiter.changes;
  for (int worker = 0; worker < num_threads(); ++worker) {
    const std::uint64_t wake_at = waiter.wake_at[static_cast<std::size_t>(worker)];
    if (wake_at == kNever) continue;
    // The least of what those who sleep wait for. All are rung, and those who sleep again say so again.
    std::atomic<std::uint64_t>& notify_at = arena_.mailbox(worker).notify_at;
    std::uint64_t earlier = notify_at.load(std::memory_order_seq_cst);
    while ((earlier <= FinishedBy(worker) || earlier > wake_at) &&
           !notify_at.compare_exchange_weak(earlier, wake_at, std::memory_order_seq_cst)) {
    }
    has_arrivals |= arena_.mailbox(worker).finished.load(std::memory_order_seq_cst) >= wake_at;
  }
  Perturb();
  if (has_arrivals) {
    bell.CancelWait();
  } else {
    const std::chrono::nanoseconds left = until - Clock::now(), none{0};
    bell.Wait(key, std::clamp<std::chrono::nanoseconds>(left, none, kInterruptPeriod));
  }
  // While this thread is awake, workers need not ring the bell for it.
  for (int worker = 0; worker < num_threads(); ++worker) {
    std::uint64_t wake_at = waiter.wake_at[static_cast<std::size_t>(worker)];
    if (wake_at != kNever) arena_.mailbox(worker).notify_at.compare_exchange_strong(wake_at, kNever);
  }
}

// Does what is asked for in this process, if there is something: one thread at a time. That thread itself
// comes here again where an env steps its own pool, which then says that it cannot.
void WorkerExecutor::Serve() {
  if (!options_.serve) return;
  const auto is_asked = [&](int index) {
    const Worker& worker = *workers_[static_cast<std::size_t>(index)];
    return worker.process < 0 && worker.asked.load(std::memory_order_acquire) !=
                                     arena_.mailbox(index).finished.load(std::memory_order_acquire);
  };
  const int local = num_threads() - 1;  // if any is
  if (!is_asked(local)) return;
  const auto me = std::this_thread::get_id();
  if (serving_.load(std::memory_order_relaxed) == me) return options_.serve();
  std::thread::id nobody;
  if (!serving_.compare_exchange_strong(nobody, me, std::memory_order_acquire)) return;
  struct Turn {
    ~Turn() { serving.store(std::thread::id(), std::memory_order_release); }
    std::atomic<std::thread::id>& serving;
  } turn{serving_};
  {
    const std::lock_guard lock(mutex_);
    if (is_over_) return;
  }
  options_.serve();
}

void WorkerExecutor::AdviseOnce() {
  if (!options_.advise || is_advised_.load(std::memory_order_relaxed)) return;
  if (arena_.StepTime().second < kEnoughSteps) return;
  if (!is_advised_.exchange(true)) options_.advise();
}

// ---- visiting -----------------------------------------------------------------------------------

// Visits what is wanted and finished. Whether there was anything.
bool WorkerExecutor::VisitFinished(const Wanted& wanted, Waiter& waiter) {
  waiter.claimed.clear();
  {
    Perturb();
    const std::lock_guard lock(mutex_);
    if (is_over_) return false;
    for (int worker = 0; worker < num_threads(); ++worker) ClaimOf(worker, wanted, waiter);
    if (waiter.claimed.empty()) return false;
    ++num_visiting_;
  }
  bool tells_receivers = false, tells_others = false;
  for (const Run& run : waiter.claimed) {
    // Of jobs that learn in turn, one that finishes may let another one go on that somebody else waits for.
    (run.job->outbox ? tells_receivers : tells_others) |= run.job != wanted.job || run.job->has_ticket;
    Visit(run, waiter);
  }
  {
    Perturb();
    const std::lock_guard lock(mutex_);
    --num_visiting_;
  }
  const int others = num_receiving_.load(std::memory_order_seq_cst) - (wanted.job ? 0 : 1);
  tells_others |= tells_receivers && others > 0;
  if (tells_others) arena_.bell().Ring();
  return true;
}

void WorkerExecutor::ClaimOf(int index, const Wanted& wanted, Waiter& waiter) {
  Worker& worker = *workers_[static_cast<std::size_t>(index)];
  const std::uint64_t finished = FinishedBy(index);
  const auto is_claimed = [&](Run& run) {
    if (finished <= run.begin() || !wanted(run)) return false;
    const auto count = static_cast<std::uint32_t>(std::min(finished, run.end) - run.begin());
    Run claimed = run;
    claimed.request.count = count;
    claimed.end = run.begin() + count;
    waiter.claimed.push_back(claimed);
    run.index += count;
    run.request.first += count;
    run.request.count -= count;
    return run.request.count == 0;
  };
  std::erase_if(worker.pending, is_claimed);
  worker.known = std::max(worker.known, finished);
}

// ---- the end ------------------------------------------------------------------------------------

bool WorkerExecutor::Join() {
  const std::lock_guard lock(mutex_);
  is_over_ = true;
  const std::thread::id none;
  return num_visiting_ == 0 && looking_ == none && serving_ == none;
}

bool WorkerExecutor::IsIn(std::thread::id caller) {
  const std::lock_guard lock(mutex_);
  return looking_ == caller || serving_ == caller;
}

bool WorkerExecutor::WaitForThreads(InterruptCheck interrupted) {
  while (!Join()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    if (interrupted()) return false;
  }
  return true;
}

}  // namespace torchrl_pool::core

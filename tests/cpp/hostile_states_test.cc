// Saved states that somebody has cut off or changed, for every task of the families that need no simulator:
// an error or another state, and never more than that. Meant for AddressSanitizer.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "check.h"
#include "client.h"
#include "errors.h"
#include "fixture.h"
#include "pool.h"

namespace torchrl_pool::core {
namespace {

using test::NeverInterrupted;
using test::Tensors;
using Bytes = std::vector<std::uint8_t>;

PoolOptions OneThread() {
  PoolOptions options;
  options.num_threads = 1;
  return options;
}

// A pool of two envs of a task, which always does the first action.
class Stepped {
 public:
  explicit Stepped(const std::shared_ptr<const Config>& config)
      : pool_(Pool::Open({{config, 0}, {config, 0}}, OneThread(), NeverInterrupted)),
        actions_(pool_->layout().actions, 2),
        out_(pool_->layout().outputs, 2),
        root_(pool_->layout().outputs, 2) {
    for (std::size_t column = 0; column < pool_->layout().actions.size(); ++column) {
      for (std::size_t row = 0; row < 2; ++row) {
        auto* bytes = const_cast<std::byte*>(actions_.Row(column, row));
        std::fill_n(bytes, pool_->layout().actions[column].row_bytes, std::byte{0});
      }
    }
    Run(pool_->Begin(Op::kReset, NeverInterrupted));
  }

  Pool& pool() { return *pool_; }

  void Step() {
    Ticket& ticket = pool_->Begin(Op::kStepAndReset, NeverInterrupted);
    actions_.BindTo(ticket.actions);
    root_.BindTo(ticket.root);
    Run(ticket);
  }

 private:
  void Run(Ticket& ticket) {
    out_.BindTo(ticket.out);
    pool_->Submit(ticket, nullptr);
    pool_->Wait(ticket, NeverInterrupted);
  }

  std::unique_ptr<Pool> pool_;
  Tensors actions_, out_, root_;
};

template <class Function>
bool IsRefused(Function&& function) {
  try {
    function();
  } catch (const StatusError&) {
    return true;
  }
  return false;
}

// Loads a state and, if it is taken, steps on from there; an env that fails then has failed, no more.
void LoadAndStep(Stepped& stepped, const Bytes& state) {
  if (IsRefused([&] { stepped.pool().Load(0, state); })) return;
  try {
    for (int i = 0; i < 3; ++i) stepped.Step();
  } catch (const EnvFailure&) {
  }
}

void CheckTask(const std::string& plugin, const std::string& id) {
  Stepped stepped(test::MakeConfig(plugin, id));
  for (int i = 0; i < 3; ++i) stepped.Step();
  Bytes good;
  try {
    good = stepped.pool().Save(0);
  } catch (const StatusError&) {
    return;  // a task without states
  }
  const Bytes other = stepped.pool().Save(1);
  const auto restore = [&] {
    stepped.pool().Load(0, good);
    stepped.pool().Load(1, other);
  };
  for (std::size_t size = 0; size < good.size(); ++size) {
    const Bytes cut(good.begin(), good.begin() + static_cast<std::ptrdiff_t>(size));
    CHECK(IsRefused([&] { stepped.pool().Load(0, cut); }));
    restore();
    CHECK_EQ(stepped.pool().Save(0), good);
  }
  Bytes longer = good;
  longer.push_back(0);
  CHECK(IsRefused([&] { stepped.pool().Load(0, longer); }));

  std::mt19937 rng(0);
  for (std::size_t position = 0; position < good.size(); ++position) {
    for (const std::uint8_t value :
         {std::uint8_t{0}, std::uint8_t{0x7f}, std::uint8_t{0xff}, static_cast<std::uint8_t>(rng() & 0xff)}) {
      Bytes changed = good;
      changed[position] = value;
      LoadAndStep(stepped, changed);
      restore();
    }
  }
  CHECK_EQ(stepped.pool().Save(0), good);
  stepped.Step();
}

void CheckFamily(const std::string& plugin) {
  const auto loaded = test::LoadPlugin(plugin);
  const auto tasks = loaded->tasks();
  CHECK(!tasks.empty());
  for (const trp_task* task : tasks) CheckTask(plugin, task->id);
}

TEST(StatesOfClassicControl) { CheckFamily("libtorchrl_pool_classic"); }
TEST(StatesOfToyTexts) { CheckFamily("libtorchrl_pool_toy_text"); }

}  // namespace
}  // namespace torchrl_pool::core

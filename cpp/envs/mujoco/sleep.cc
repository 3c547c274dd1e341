#include "sleep.h"

#include "torchrl_pool/error.h"

namespace torchrl_pool::mujoco {
namespace {

// Calls visit(numbers, count, least, most) for each array and number of mjData's that tells who sleeps.
template <class Data, class Visit>
void VisitSleep(const mjModel& model, Data* data, const Visit& visit) {
  if (!(model.opt.enableflags & mjENBL_SLEEP)) return;
  visit(data ? data->tree_asleep : nullptr, model.ntree, -1 - mjMINAWAKE, model.ntree - 1);
  visit(data ? data->tree_awake : nullptr, model.ntree, 0, 1);
  visit(data ? data->body_awake : nullptr, model.nbody, -1, 1);
  visit(data ? data->body_awake_ind : nullptr, model.nbody, 0, model.nbody - 1);
  visit(data ? data->parent_awake_ind : nullptr, model.nbody, 0, model.nbody - 1);
  visit(data ? data->dof_awake_ind : nullptr, model.nv, 0, model.nv - 1);
  visit(data ? &data->ntree_awake : nullptr, 1, 0, model.ntree);
  visit(data ? &data->nbody_awake : nullptr, 1, 0, model.nbody);
  visit(data ? &data->nparent_awake : nullptr, 1, 0, model.nbody);
  visit(data ? &data->nv_awake : nullptr, 1, 0, model.nv);
}

constexpr const mjData* kNoData = nullptr;

}  // namespace

std::size_t SleepSize(const mjModel& model) {
  std::size_t size = 0;
  VisitSleep(model, kNoData,
             [&](const int*, auto count, auto, auto) { size += static_cast<std::size_t>(count); });
  return size;
}

void SaveSleep(const mjModel& model, const mjData& data, std::vector<double>* to) {
  VisitSleep(model, &data, [&](const int* numbers, auto count, auto, auto) {
    to->insert(to->end(), numbers, numbers + count);
  });
}

void CheckSleep(const mjModel& model, std::span<const double> numbers) {
  const auto check = [](bool holds) {
    if (!holds) throw InvalidArgument("corrupt saved state: a value is out of its range");
  };
  const std::span<const double> asleep =
      numbers.first(numbers.empty() ? 0 : static_cast<std::size_t>(model.ntree));
  VisitSleep(model, kNoData, [&](const int*, auto count, auto least, auto most) {
    for (const double number : numbers.first(static_cast<std::size_t>(count))) {
      check(number >= static_cast<double>(least) && number <= static_cast<double>(most) &&
            number == static_cast<double>(static_cast<int>(number)));
    }
    numbers = numbers.subspan(static_cast<std::size_t>(count));
  });
  // Trees that sleep together name each other in a circle, which MuJoCo follows until it is back.
  std::vector<bool> named(asleep.size());
  for (const double next : asleep) {
    if (next < 0) continue;
    const auto tree = static_cast<std::size_t>(next);
    check(asleep[tree] >= 0 && !named[tree]);
    named[tree] = true;
  }
}

void RestoreSleep(const mjModel& model, std::span<const double> numbers, mjData* data) {
  VisitSleep(model, data, [&](int* to, auto count, auto, auto) {
    for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) to[i] = static_cast<int>(numbers[i]);
    numbers = numbers.subspan(static_cast<std::size_t>(count));
  });
}

}  // namespace torchrl_pool::mujoco

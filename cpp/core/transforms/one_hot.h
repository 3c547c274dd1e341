// Discrete entries as one-hot vectors: numbers become vectors on the way out, vectors numbers on the way in.
#ifndef TORCHRL_POOL_CORE_TRANSFORMS_ONE_HOT_H_
#define TORCHRL_POOL_CORE_TRANSFORMS_ONE_HOT_H_

#include <cstdint>
#include <cstring>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "stage.h"

namespace torchrl_pool::core {

// Of an output that is none of its choices the env is at fault.
class EncodeOneHotStage : public RowStage<EncodeOneHotStage> {
 public:
  // categories: of each element, in the order in which their vectors lie one after the other.
  EncodeOneHotStage(ValueIndex in, ValueIndex out, ValueIndex fault, std::string name,
                    std::vector<std::int64_t> categories)
      : in_(in),
        out_(out),
        fault_(fault),
        name_(std::move(name)),
        categories_(std::move(categories)),
        width_(std::accumulate(categories_.begin(), categories_.end(), std::int64_t{0})) {}

  void Step(const StageRow& row) const {
    auto* to = row.Get<std::int64_t>(out_);
    std::memset(to, 0, static_cast<std::size_t>(width_) * sizeof *to);
    const auto* category = row.Get<const std::int64_t>(in_);
    for (const std::int64_t count : categories_) {
      if (*category < 0 || *category >= count) {
        return row.Get<Fault>(fault_)->Say("the env wrote %lld to '%s', expected one of 0 to %lld",
                                           static_cast<long long>(*category), name_.c_str(),
                                           static_cast<long long>(count - 1));
      }
      to[*category++] = 1;
      to += count;
    }
  }

 private:
  const ValueIndex in_, out_, fault_;
  const std::string name_;
  const std::vector<std::int64_t> categories_;
  const std::int64_t width_;
};

// Of several hot entries the first one counts, as torch's argmax has it. Rows have been checked before: each
// vector has a hot one. Which one it is no processor foresees: so there is no branch on it.
inline void DecodeOneHot(const std::vector<std::int64_t>& categories, const std::int64_t* hot,
                         std::int64_t* numbers) {
  for (const std::int64_t count : categories) {
    std::int64_t first = count - 1;
    for (std::int64_t category = count - 2; category >= 0; --category) {
      first = hot[category] != 0 ? category : first;
    }
    *numbers++ = first;
    hot += count;
  }
}

}  // namespace torchrl_pool::core

#endif  // TORCHRL_POOL_CORE_TRANSFORMS_ONE_HOT_H_

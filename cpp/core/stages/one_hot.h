// Discrete entries as one-hot vectors: numbers become vectors on the way out, vectors numbers on the way in.
#ifndef TORCHRL_POOL_CORE_STAGES_ONE_HOT_H_
#define TORCHRL_POOL_CORE_STAGES_ONE_HOT_H_

#include <cstdint>
#include <cstring>
#include <numeric>
#include <string>
#include <vector>

#include "stages/stage.h"

namespace torchrl_pool::core {

// categories: of each element, in the order in which their vectors lie one after the other.
inline Stage EncodeOneHot(std::size_t output, std::size_t column, const std::string& name,
                          const std::vector<std::int64_t>& categories) {
  const auto width = std::accumulate(categories.begin(), categories.end(), std::int64_t{0});
  return {[=](const StageRow& row, std::byte*) {
    auto* to = reinterpret_cast<std::int64_t*>(row.Column(column));
    if (!to) return true;
    std::memset(to, 0, static_cast<std::size_t>(width) * sizeof *to);
    const auto* category = static_cast<const std::int64_t*>(row.written[output]);
    for (const std::int64_t count : categories) {
      if (*category < 0 || *category >= count) {
        return row.Fail("the env wrote %lld to '%s', expected one of 0 to %lld",
                        static_cast<long long>(*category), name.c_str(), static_cast<long long>(count - 1));
      }
      to[*category++] = 1;
      to += count;
    }
    return true;
  }};
}

// Rows have been checked before: each vector has one hot entry. Which one it is no processor foresees: so
// there is no branch on it.
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

#endif  // TORCHRL_POOL_CORE_STAGES_ONE_HOT_H_

// What a domain tells of its state: entry after entry, each a few numbers.
#ifndef TORCHRL_POOL_ENVS_DM_CONTROL_OBSERVER_H_
#define TORCHRL_POOL_ENVS_DM_CONTROL_OBSERVER_H_

#include <algorithm>
#include <cstdint>
#include <functional>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "torchrl_pool/env.h"

namespace torchrl_pool::dm_control {

struct Entry {
  std::string name;
  std::vector<std::int64_t> shape;

  std::int64_t size() const {
    return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
  }
};

// Writes numbers one after the other.
class Writer {
 public:
  explicit Writer(double* out) : out_(out) {}

  Writer& Add(double value) {
    *out_++ = value;
    return *this;
  }
  Writer& Add(const double* values, std::int64_t count) {
    out_ = std::copy_n(values, count, out_);
    return *this;
  }
  template <class Values>
  Writer& Add(const Values& values) {
    out_ = std::copy(values.begin(), values.end(), out_);
    return *this;
  }
  // function(value) for each.
  template <class Function>
  Writer& AddEach(const double* values, std::int64_t count, const Function& function) {
    out_ = std::transform(values, values + count, out_, function);
    return *this;
  }

 private:
  double* out_;
};

// A domain calls it once for each entry, and writes as many numbers as it said. The first time, entries are
// noted; then they go to outputs of a row, or one behind the other into the first of them.
class Observer {
 public:
  // Notes the entries.
  explicit Observer(std::vector<Entry>* entries) : entries_(entries) {}
  // Writes them.
  Observer(const Row& row, bool flat) : row_(&row), end_(flat ? row.Out<double>(0) : nullptr) {}

  // `rows`: of how many vectors of `size` a matrix consists.
  Writer operator()(const char* name, std::int64_t size, std::int64_t rows = 0) {
    const std::int64_t count = size * std::max<std::int64_t>(rows, 1);
    if (entries_) {
      entries_->push_back({name, rows > 0 ? std::vector{rows, size} : std::vector{size}});
      scratch_.resize(static_cast<std::size_t>(count));
      return Writer(scratch_.data());
    }
    if (end_) return Writer(std::exchange(end_, end_ + count));
    return Writer(row_->Out<double>(next_++));
  }
  // A number, which TorchRL has as a vector of one.
  void Number(const char* name, double value) { (*this)(name, 1).Add(value); }

 private:
  std::vector<Entry>* entries_ = nullptr;
  std::vector<double> scratch_;
  const Row* row_ = nullptr;
  double* end_ = nullptr;
  int next_ = 0;
};

}  // namespace torchrl_pool::dm_control

#endif  // TORCHRL_POOL_ENVS_DM_CONTROL_OBSERVER_H_

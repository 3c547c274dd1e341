#include "assignment.h"

#include <limits>

namespace torchrl_pool::mpe {

std::vector<std::size_t> LeastCost(const std::vector<double>& costs, std::size_t size) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const std::size_t none = size;
  std::vector<double> of_row(size, 0.0), of_column(size, 0.0);  // dual variables
  std::vector<std::size_t> column_of(size, none), row_of(size, none), before(size, none);
  std::vector<std::size_t> open(size);  // columns that no path has reached for good
  std::vector<double> length(size);
  std::vector<bool> row_reached(size), column_reached(size);
  for (std::size_t start = 0; start < size; ++start) {
    length.assign(size, kInfinity);
    row_reached.assign(size, false);
    column_reached.assign(size, false);
    for (std::size_t i = 0; i < size; ++i) open[i] = size - 1 - i;
    std::size_t num_open = size, row = start, end = none;
    double least = 0;
    while (end == none) {
      row_reached[row] = true;
      std::size_t nearest = 0;
      double shortest = kInfinity;
      for (std::size_t k = 0; k < num_open; ++k) {
        const std::size_t column = open[k];
        const double through = least + costs[row * size + column] - of_row[row] - of_column[column];
        if (through < length[column]) {
          length[column] = through;
          before[column] = row;
        }
        // Among equals, one that ends the path.
        if (length[column] < shortest || (length[column] == shortest && row_of[column] == none)) {
          shortest = length[column];
          nearest = k;
        }
      }
      if (!(shortest < kInfinity)) return column_of;
      least = shortest;
      const std::size_t column = open[nearest];
      column_reached[column] = true;
      open[nearest] = open[--num_open];
      if (row_of[column] == none) {
        end = column;
      } else {
        row = row_of[column];
      }
    }
    of_row[start] += least;
    for (std::size_t i = 0; i < size; ++i) {
      if (row_reached[i] && i != start) of_row[i] += least - length[column_of[i]];
      if (column_reached[i]) of_column[i] -= least - length[i];
    }
    for (std::size_t column = end, next;; column = next) {
      const std::size_t i = before[column];
      row_of[column] = i;
      next = column_of[i];
      column_of[i] = column;
      if (i == start) break;
    }
  }
  return column_of;
}

}  // namespace torchrl_pool::mpe

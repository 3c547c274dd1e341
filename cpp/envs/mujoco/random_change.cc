#include "random_change.h"

#include <cmath>
#include <cstdlib>

#include "torchrl_pool/error.h"

namespace torchrl_pool::mujoco {
namespace {

double Number(const std::string& line, const std::string& text) {
  char* end = nullptr;
  const double number = std::strtod(text.c_str(), &end);
  if (text.empty() || *end || !std::isfinite(number)) {
    throw InvalidArgument("randomize: '" + line + "': expected a number, got '" + text + "'");
  }
  return number;
}

// Throws InvalidArgument where the line is none.
struct Parts {
  std::string field, change, kind, first, second;

  explicit Parts(const std::string& line) {
    if (Parse(Trimmed(line))) return;
    throw InvalidArgument(
        "randomize: expected 'FIELD =', 'FIELD +=' or 'FIELD *=' and uniform(low, high), "
        "log_uniform(low, high) or normal(mean, deviation), got '" +
        line + "'");
  }

 private:
  // From the end on: the field's names may hold any character.
  bool Parse(const std::string& line) {
    const std::size_t open = line.rfind('('), equals = line.rfind('=', open);
    if (open == std::string::npos || equals == std::string::npos || equals == 0 || line.back() != ')')
      return false;
    const std::size_t begin = line[equals - 1] == '+' || line[equals - 1] == '*' ? equals - 1 : equals;
    field = Trimmed(line.substr(0, begin));
    change = line.substr(begin, equals + 1 - begin);
    kind = Trimmed(line.substr(equals + 1, open - equals - 1));
    const std::string numbers = line.substr(open + 1, line.size() - open - 2);
    const std::size_t comma = numbers.find(',');
    if (comma == std::string::npos || comma != numbers.rfind(',')) return false;
    first = Trimmed(numbers.substr(0, comma));
    second = Trimmed(numbers.substr(comma + 1));
    return !field.empty() && (kind == "uniform" || kind == "log_uniform" || kind == "normal");
  }
};

}  // namespace

RandomChange::RandomChange(const mjModel& model, const std::string& line) {
  const Parts parts(line);
  const std::string& field = parts.field;
  if (IsInput(field.substr(0, field.find(':')))) {
    data_.emplace(model, field);
  } else {
    try {
      model_.emplace(model, field);
    } catch (const InvalidArgument& error) {
      throw InvalidArgument(std::string("randomize: ") + error.what() +
                            "; of mjData a reset may change: " + Inputs());
    }
  }
  change_ = parts.change == "=" ? Change::kSet : parts.change == "+=" ? Change::kAdd : Change::kScale;
  kind_ = parts.kind == "uniform"  ? Kind::kUniform
          : parts.kind == "normal" ? Kind::kNormal
                                   : Kind::kLogUniform;
  first_ = Number(line, parts.first);
  second_ = Number(line, parts.second);
  if (!(kind_ == Kind::kNormal ? second_ >= 0 : first_ <= second_)) {
    throw InvalidArgument("randomize: '" + line + "': the numbers are in the wrong order");
  }
  if (kind_ == Kind::kLogUniform && !(first_ > 0)) {
    throw InvalidArgument("randomize: '" + line + "': log_uniform takes numbers above 0");
  }
}

std::vector<double> RandomChange::Sample(Rng& rng) const {
  std::vector<double> numbers(data_ ? data_->size() : model_->size());
  for (double& number : numbers) {
    switch (kind_) {
      case Kind::kUniform:
        number = rng.Uniform(first_, second_);
        break;
      case Kind::kLogUniform:
        number = std::exp(rng.Uniform(std::log(first_), std::log(second_)));
        break;
      case Kind::kNormal:
        number = rng.Normal(first_, second_);
        break;
    }
  }
  return numbers;
}

void RandomChange::Apply(const std::vector<double>& numbers, double* values) const {
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    switch (change_) {
      case Change::kSet:
        values[i] = numbers[i];
        break;
      case Change::kAdd:
        values[i] += numbers[i];
        break;
      case Change::kScale:
        values[i] *= numbers[i];
        break;
    }
  }
}

}  // namespace torchrl_pool::mujoco

#include "random_change.h"

#include <cmath>
#include <cstdlib>
#include <regex>

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

}  // namespace

RandomChange::RandomChange(const mjModel& model, const std::string& line) {
  static const std::regex form(
      R"(\s*([\w:,./-]+?)\s*(=|\+=|\*=)\s*(uniform|log_uniform|normal)\s*\(\s*([^,\s]+)\s*,\s*([^,\s]+)\s*\)\s*)");
  std::smatch parts;
  if (!std::regex_match(line, parts, form)) {
    throw InvalidArgument(
        "randomize: expected 'FIELD =', 'FIELD +=' or 'FIELD *=' and uniform(low, high), "
        "log_uniform(low, high) or normal(mean, deviation), got '" +
        line + "'");
  }
  const std::string field = parts[1];
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
  change_ = parts[2] == "=" ? Change::kSet : parts[2] == "+=" ? Change::kAdd : Change::kScale;
  kind_ = parts[3] == "uniform" ? Kind::kUniform : parts[3] == "normal" ? Kind::kNormal : Kind::kLogUniform;
  first_ = Number(line, parts[4]);
  second_ = Number(line, parts[5]);
  if (kind_ == Kind::kNormal ? second_ < 0 : first_ > second_) {
    throw InvalidArgument("randomize: '" + line + "': the numbers are in the wrong order");
  }
  if (kind_ == Kind::kLogUniform && first_ <= 0) {
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

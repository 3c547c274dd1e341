#include "plugin.h"

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "check.h"
#include "concurrency.h"
#include "errors.h"
#include "fixture.h"
#include "visit.h"

namespace torchrl_pool::core {
namespace {

using test::LoadPlugin;
using test::MakeConfig;
using test::PluginPath;

template <class Function>
trp_status StatusOf(Function&& function) {
  try {
    function();
  } catch (const StatusError& e) {
    return e.status;
  }
  return TRP_OK;
}

std::shared_ptr<const Plugin> LoadBad(const char* kind) {
  setenv("TORCHRL_POOL_TEST_BAD", kind, 1);
  return LoadPlugin("bad_plugin");
}

TEST(RefusesAMissingFile) {
  const std::string path = PluginPath("no_such_plugin");
  CHECK_THROWS(StatusError, path, Plugin::Load(path));
  CHECK_EQ(StatusOf([&] { Plugin::Load(path); }), TRP_FILE_NOT_FOUND);
}

TEST(RefusesAFileThatIsNoLibrary) {
  const auto path = std::filesystem::temp_directory_path() / "torchrl_pool_test_text.so";
  std::ofstream(path) << "just text";
  CHECK_THROWS(StatusError, path.string(), Plugin::Load(path.string()));
  std::filesystem::remove(path);
}

TEST(RefusesALibraryThatIsNoPlugin) {
  CHECK_THROWS(StatusError, "is not a plugin", LoadPlugin("not_a_plugin"));
  CHECK_EQ(StatusOf([] { LoadPlugin("not_a_plugin"); }), TRP_INVALID_ARGUMENT);
}

TEST(RefusesAnotherAbiVersion) {
  CHECK_THROWS(StatusError, "ABI version " + std::to_string(TRP_ABI_VERSION + 1), LoadBad("version"));
  CHECK_THROWS(StatusError, "ABI version " + std::to_string(TRP_ABI_VERSION - 1), LoadBad("older version"));
  CHECK_EQ(StatusOf([] { LoadBad("version"); }), TRP_INVALID_ARGUMENT);
}

TEST(RefusesOptionsOfUnknownType) {
  CHECK_THROWS(StatusError, "option 'strange' of task 'Bad-v0' has unknown type 99",
               LoadBad("unknown option type"));
  CHECK_THROWS(StatusError, "has unknown type -1", LoadBad("negative option type"));
}

TEST(RefusesDescriptionsThatPointToNothing) {
  CHECK_THROWS(StatusError, "no table of options", LoadBad("no table of options"));
  CHECK_THROWS(StatusError, "no table of options", LoadBad("negative options"));
  CHECK_THROWS(StatusError, "has no name", LoadBad("no name of an option"));
  for (int type = TRP_TYPE_BOOL; type <= TRP_TYPE_STRING_LIST; ++type) {
    CHECK_THROWS(StatusError, "a default that points to nothing",
                 LoadBad(("option " + std::to_string(type)).c_str()));
  }
  CHECK_THROWS(StatusError, "a default that points to nothing", LoadBad("no key in a list"));
  CHECK_THROWS(StatusError, "a choice that points to nothing", LoadBad("a choice of nothing"));
  CHECK_THROWS(StatusError, "no table of choices", LoadBad("no table of choices"));
  CHECK_THROWS(StatusError, "one of its packages has no name", LoadBad("nameless package"));
}

TEST(RefusesEntriesThatPointToNothing) {
  const auto open = [](const char* kind) {
    const auto plugin = LoadBad(kind);
    Config(plugin, plugin->task("Bad-v0"), {});
  };
  CHECK_THROWS(StatusError, "point to nothing", open("no shape"));
  CHECK_THROWS(StatusError, "point to nothing", open("no categories"));
  CHECK_THROWS(StatusError, "too many dimensions", open("many dimensions"));
}

TEST(RefusesPicturesOfImpossibleSizes) {
  const auto render_size = [](const char* kind) {
    const auto plugin = LoadBad(kind);
    return Config(plugin, plugin->task("Bad-v0"), {}).RenderSize();
  };
  CHECK(render_size("no pixels") == std::pair(std::int64_t{1} << 20, std::int64_t{0}));
  for (const char* kind : {"a height below 0", "a width below 0", "a picture as large as none"}) {
    CHECK_THROWS(StatusError, "'Bad-v0': its pictures have", render_size(kind));
  }
}

TEST(PassesOnWhyAPluginDidNotStart) {
  CHECK_THROWS(StatusError, "no licence found", LoadBad("refuses"));
  CHECK_THROWS(StatusError, "did not start: xxx", LoadBad("long refusal"));
}

TEST(RefusesATaskWithoutARequiredFunction) {
  for (const char* name : {"open", "close", "specs", "create", "destroy", "seed", "reset", "step"}) {
    CHECK_THROWS(StatusError, std::string("'Bad-v0' lacks the required function '") + name + "'",
                 LoadBad(name));
  }
}

TEST(RefusesATaskWithoutAnId) { CHECK_THROWS(StatusError, "no id", LoadBad("no id")); }

TEST(RefusesAMissingTask) { CHECK_THROWS(StatusError, "no id", LoadBad("no task")); }

TEST(RefusesAPluginWithoutAFamily) { CHECK_THROWS(StatusError, "usable", LoadBad("no family")); }

TEST(RefusesAPluginWithoutAVersion) { CHECK_THROWS(StatusError, "usable", LoadBad("no version")); }

TEST(RefusesPackagesThatAreNotThere) {
  CHECK_THROWS(StatusError, "no table of packages", LoadBad("no packages"));
  CHECK_THROWS(StatusError, "no table of packages", LoadBad("packages without locate"));
  CHECK_THROWS(StatusError, "no table of packages", LoadBad("negative packages"));
}

TEST(PackagesAreNamedAndLocated) {
  const auto plugin = LoadPlugin("options_plugin");
  const auto packages = plugin->packages();
  CHECK_EQ(packages.size(), 2u);
  CHECK_EQ(packages[0].name, std::string("first_package"));
  CHECK_EQ(packages[0].version, std::string("1.2"));
  CHECK_EQ(packages[1].name, std::string("second_package"));
  CHECK(packages[1].version == nullptr);
  CHECK_THROWS(StatusError, "'second_package', which is not installed",
               MakeConfig("options_plugin", "Options-v0", {{"word", "package"}}));
  plugin->Locate({"/one", "/two"});
  CHECK_THROWS(StatusError, "second_package is in /two",
               MakeConfig("options_plugin", "Options-v0", {{"word", "package"}}));
}

TEST(RefusesANegativeNumberOfTasks) { CHECK_THROWS(StatusError, "usable", LoadBad("negative tasks")); }

TEST(RefusesAPluginWithoutATableOfTasks) {
  // In a child: a host that does not check crashes.
  CHECK_EQ(test::RunInChild(20, [] { return StatusOf([] { LoadBad("no tasks"); }) != TRP_OK ? 0 : 1; }), 0);
}

TEST(RefusesTwoTasksOfOneName) { CHECK_THROWS(StatusError, "Bad-v0", LoadBad("twice")); }

TEST(RefusesResetOptionsThatAreNotWhole) {
  CHECK_THROWS(StatusError, "task 'Bad-v0' has reset options, but not all that belongs to them",
               LoadBad("reset options alone"));
  CHECK_THROWS(StatusError, "option 'strange' of task 'Bad-v0' has unknown type 99",
               LoadBad("unknown reset option type"));
}

TEST(ALibraryThatIsNoPluginIsToldWhatItLacks) {
  CHECK_THROWS(StatusError, "TORCHRL_POOL_PLUGIN(\"family\", \"version\")", LoadPlugin("not_a_plugin"));
}

TEST(AfterAFailedLoadAnotherFileMayTakeItsPlace) {
  // Someone fixes the plugin, builds it again, and loads it in the same process.
  const auto path = std::filesystem::temp_directory_path() / "torchrl_pool_test_rebuilt.so";
  const auto replace = [&](const char* by) {
    std::filesystem::remove(path);
    std::filesystem::copy_file(PluginPath(by), path);
  };
  replace("not_a_plugin");
  CHECK_THROWS(StatusError, "is not a plugin", Plugin::Load(path.string()));
  replace("options_plugin");
  const auto plugin = Plugin::Load(path.string());
  CHECK_EQ(plugin->family(), "options");
  std::filesystem::remove(path);
}

TEST(LoadsAndListsTasks) {
  const auto plugin = LoadPlugin("test_plugin");
  CHECK_EQ(plugin->path(), PluginPath("test_plugin"));
  CHECK_EQ(plugin->family(), "test");
  CHECK_EQ(plugin->version(), "1.2");
  CHECK_EQ(plugin->tasks().size(), 2u);
  CHECK_EQ(plugin->tasks()[0]->id, std::string("Counter-v0"));
  CHECK_EQ(plugin->tasks()[0]->description, std::string("counts"));
  CHECK_EQ(plugin->tasks()[0]->max_episode_steps, 0);
  CHECK(std::isnan(plugin->tasks()[0]->reward_threshold));
  CHECK_EQ(plugin->task("Kinds-v0").max_episode_steps, 7);
  CHECK_THROWS(StatusError, "no task 'Nothing-v0'", plugin->task("Nothing-v0"));
  CHECK_EQ(LoadPlugin("options_plugin")->tasks()[0]->reward_threshold, 9.5);
}

TEST(OptionalFunctionsAreNullWhereATaskHasNone) {
  const auto plugin = LoadPlugin("test_plugin");
  const trp_task& counter = plugin->task("Counter-v0");
  CHECK(counter.save && counter.load && counter.render && counter.render_size);
  const trp_task& kinds = plugin->task("Kinds-v0");
  CHECK(!kinds.save && !kinds.load && !kinds.render && !kinds.render_size);
}

const trp_option& FindOption(const trp_task& task, const std::string& name) {
  for (std::int64_t i = 0; i < task.num_options; ++i) {
    if (name == task.options[i].name) return task.options[i];
  }
  test::Fail(__FILE__, __LINE__, "no option " + name);
}

TEST(DescribesOptions) {
  const auto plugin = LoadPlugin("options_plugin");
  const trp_task& task = plugin->task("Options-v0");
  CHECK_EQ(task.num_options, 13);
  const trp_type types[] = {TRP_TYPE_BOOL,       TRP_TYPE_INT,           TRP_TYPE_INT,
                            TRP_TYPE_FLOAT,      TRP_TYPE_STRING,        TRP_TYPE_INT_LIST,
                            TRP_TYPE_FLOAT_LIST, TRP_TYPE_FLOAT_LIST,    TRP_TYPE_INT,
                            TRP_TYPE_FLOAT,      TRP_TYPE_INT_OR_STRING, TRP_TYPE_FLOAT_LIST_MAP,
                            TRP_TYPE_STRING_LIST};
  for (std::int64_t i = 0; i < task.num_options; ++i) {
    const trp_option& option = task.options[i];
    CHECK_EQ(option.default_value.type, types[i]);
    CHECK(std::string(option.help) != "");
    CHECK_EQ(option.nullable, i == 8 || i == 9 || i == 11);
    CHECK_EQ(option.fixed_count, std::string(option.name) == "range" ? 2 : -1);
  }
  CHECK_EQ(FindOption(task, "number").minimum, 0.0);
  CHECK_EQ(FindOption(task, "number").maximum, 10.0);
  CHECK_EQ(FindOption(task, "small").maximum, 2147483647.0);  // of its type
  CHECK_EQ(FindOption(task, "word").num_choices, 2);
  CHECK_EQ(FindOption(task, "word").choices[1].string, std::string("green"));
  CHECK_EQ(FindOption(task, "real").num_choices, 2);
  CHECK_EQ(FindOption(task, "real").choices[1].floats[0], 0.5);
  CHECK_EQ(FindOption(task, "flag").num_choices, 0);
}

TEST(DescribesDefaults) {
  const auto plugin = LoadPlugin("options_plugin");
  const trp_task& task = plugin->task("Options-v0");
  const auto value = [&](const char* name) { return test::DefaultOf(FindOption(task, name)); };
  CHECK(value("flag") == OptionValue(true));
  CHECK(value("number") == OptionValue(3));
  CHECK(value("small") == OptionValue(-4));
  CHECK(value("real") == OptionValue(0.25));
  CHECK(value("word") == OptionValue("red"));
  CHECK(value("numbers") == OptionValue(std::vector<std::int64_t>{1, 2}));
  CHECK(value("reals") == OptionValue(std::vector<double>{}));
  CHECK(value("range") == OptionValue(std::vector<double>{-0.5, 0.5}));
  CHECK(value("maybe") == OptionValue());
  CHECK(value("perhaps") == OptionValue(1.5));
  CHECK(value("which") == OptionValue("left"));
  CHECK(value("lines") == OptionValue(std::vector<std::string>{"up", "down"}));
  CHECK(value("table") == OptionValue(test::Table{{"a", {1}}, {"b", {2, 3}}}));
}

// What the first observation of an env shows, as text.
std::string Shown(const test::Options& options) {
  const auto config = MakeConfig("options_plugin", "Options-v0", options);
  const Layout layout(*config, {});
  Scratch scratch(layout);
  EnvSlot slot{};
  slot.config = config.get();
  slot.task = &config->task();
  Job job;
  test::Tensors out(layout.outputs, 1);
  job.out = test::MakeBatch(layout.outputs.size());
  out.BindTo(job.out);
  for (const Op op : {Op::kCreate, Op::kReset}) {
    job.op = op;
    CHECK_EQ(Visitor(layout, job, scratch).Visit(0, slot), Result::kOk);
  }
  config->task().destroy(slot.env);
  std::string text = test::Show(out.Values<std::int64_t>("ints", 0)) +
                     test::Show(out.Values<std::int64_t>("numbers", 0)) +
                     test::Show(out.Values<double>("floats", 0));
  for (const char letter : out.Values<char>("word", 0)) {
    if (letter != '\0') text += letter;
  }
  return text + test::Show(out.Values<double>("more", 0));
}

TEST(OptionsArrive) {
  CHECK_EQ(Shown({}), "[1, 3, -4, -1, 0, 77, 24][1, 2][0.25, -0.5, 0.5, 1.5, 0]red[-4, 2, 9798, 123]");
  CHECK_EQ(Shown({{"flag", false},
                  {"number", 7},
                  {"small", 5},
                  {"real", 0.5},
                  {"word", "green"},
                  {"numbers", std::vector<std::int64_t>{9, 8, 7}},
                  {"reals", std::vector<double>{0.75, 2.5}},
                  {"range", std::vector<double>{-2, 2}},
                  {"which", 6},
                  {"table", test::Table{{"z", {4, 5}}, {"c", {}}, {"d", {7}}}},
                  {"lines", std::vector<std::string>{"abc"}}}),
           "[0, 7, 5, -1, 2, 77, 3][9, 8, 7][0.5, -2, 2, 1.5, 2.5]green[6, 3, 1000122, 745]");
}

TEST(NoneArrives) {
  CHECK_EQ(Shown({{"maybe", 4}, {"perhaps", OptionValue()}, {"table", OptionValue()}}),
           "[1, 3, -4, 4, 0, 77, 24][1, 2][0.25, -0.5, 0.5, -1, 0]red[-4, -1, 0, 0]");
}

TEST(AConfigurationThatFailsToOpenSaysWhy) {
  const auto open = [](const test::Options& options) { MakeConfig("options_plugin", "Options-v0", options); };
  CHECK_THROWS(StatusError, "Options-v0: number is too large", open({{"number", 11}}));
  CHECK_EQ(StatusOf([&] { open({{"number", 11}}); }), TRP_INVALID_ARGUMENT);
  CHECK_EQ(StatusOf([&] { open({{"word", "lost"}}); }), TRP_FILE_NOT_FOUND);
  CHECK_EQ(StatusOf([&] { open({{"word", "new"}}); }), TRP_UNSUPPORTED);
}

TEST(RefusesAnotherNumberOfOptions) {
  const auto plugin = LoadPlugin("options_plugin");
  CHECK_THROWS(StatusError, "takes 13 options, got 0", Config(plugin, plugin->task("Options-v0"), {}));
}

TEST(SpecsDependOnOptions) {
  const auto config =
      MakeConfig("options_plugin", "Options-v0", {{"numbers", std::vector<std::int64_t>{1, 2, 3, 4, 5}}});
  CHECK_EQ(config->specs()[1].shape, std::vector<std::int64_t>{5});
}

TEST(BoundsOfFloat32AreFloat32) {
  const auto config = test::KindsConfig();
  for (const Spec& spec : config->specs()) {
    if (spec.role != TRP_ACTION) continue;
    if (spec.name == "float32") CHECK_EQ(spec.high, (std::vector<double>{0.4f, 0.2f}));
    if (spec.name == "float64") CHECK_EQ(spec.high, (std::vector<double>{0.4, 0.4}));
  }
}

TEST(RefusesSpecsThatMakeNoSense) {
  const auto open = [](const char* id) { return MakeConfig("raw_plugin", id); };
  CHECK_EQ(open("Good-v0")->specs().size(), 2u);
  CHECK_THROWS(StatusError, "unknown dtype 17", open("UnknownDtype-v0"));
  CHECK_EQ(open("DoubleReward-v0")->specs()[1].dtype, TRP_FLOAT64);
  CHECK_EQ(open("IntReward-v0")->specs()[1].dtype, TRP_INT64);
  CHECK_THROWS(StatusError, "done flags must be bool", open("IntDone-v0"));
  CHECK_THROWS(StatusError, "as many numbers of categories", open("FewCategories-v0"));
  CHECK_THROWS(StatusError, "must be int64", open("FloatCategories-v0"));
}

void CheckRefused(const char* id) { CHECK_THROWS(StatusError, id, MakeConfig("raw_plugin", id)); }

TEST(RefusesASpecWithoutAName) { CheckRefused("NoName-v0"); }

TEST(RefusesAnUnknownRole) { CheckRefused("UnknownRole-v0"); }

TEST(RefusesANegativeNdim) { CheckRefused("NegativeNdim-v0"); }

TEST(RefusesANegativeShape) { CheckRefused("NegativeShape-v0"); }

TEST(RefusesAShapeThatNobodyCanCount) { CheckRefused("HugeShape-v0"); }

TEST(RefusesANegativeNumberOfSpecs) { CheckRefused("NegativeSpecs-v0"); }

TEST(RefusesANegativeNumberOfCategories) { CheckRefused("NegativeCategories-v0"); }

TEST(RefusesChoicesWithoutACategory) {
  CheckRefused("ZeroCategories-v0");
  CheckRefused("NoChoice-v0");
}

TEST(ChoicesThatRepeatStackAndOthersFollowOneAnother) {
  const auto config = MakeConfig("raw_plugin", "RepeatingChoices-v0");
  const Spec& spec = config->specs()[0];
  CHECK_EQ(spec.Choices(), (std::vector<std::int64_t>{2, 3}));
  CHECK_EQ(spec.OneHotShape(), (std::vector<std::int64_t>{2, 5}));
  const auto odd = MakeConfig("raw_plugin", "OddChoices-v0")->specs()[0];
  CHECK_EQ(odd.Choices(), odd.categories);
  CHECK_EQ(odd.OneHotShape(), (std::vector<std::int64_t>{10}));
}

TEST(LikeChoicesStack) {
  const auto choices = MakeConfig("raw_plugin", "LikeChoices-v0")->specs()[0];
  CHECK_EQ(choices.Choices(), (std::vector<std::int64_t>{3}));
  CHECK_EQ(choices.OneHotShape(), (std::vector<std::int64_t>{2, 3}));
  const auto plain = MakeConfig("raw_plugin", "Good-v0")->specs()[0];
  CHECK(plain.Choices().empty());
  CHECK_EQ(plain.OneHotShape(), plain.shape);
}

TEST(RefusesNamesThatClash) {
  for (const char* id : {"SameNames-v0", "ReservedName-v0"}) {
    CHECK_THROWS(StatusError, id, Layout(*MakeConfig("raw_plugin", id), {}));
  }
}

TEST(AnErrorWithoutAnEndIsCutOff) {
  try {
    MakeConfig("raw_plugin", "LongError-v0");
    CHECK(false);
  } catch (const StatusError& e) {
    CHECK(std::string(e.what()).size() < sizeof(trp_error) + 20);
  }
}

}  // namespace
}  // namespace torchrl_pool::core

#include "data/arrays/array_roles.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "data/arrays/array_files.h"
#include "data/arrays/channel_numbers.h"

namespace mantissa {
namespace {

std::string in_lower_case(std::string text) {
  for (char& c : text) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c);
  return text;
}

bool is_separator(char c) { return std::string_view("_-. ").find(c) != std::string_view::npos; }

// The split that stands before or after the input's name.
std::optional<Split> split_beside(const std::string& name, const std::string& input) {
  const size_t own = input.size();
  if (name.size() < own + 2) return std::nullopt;
  if (name.starts_with(input) && is_separator(name[own])) return split_of(name.substr(own + 1));
  const size_t before = name.size() - own;
  if (name.ends_with(input) && is_separator(name[before - 1])) {
    return split_of(name.substr(0, before - 1));
  }
  return std::nullopt;
}

struct Role {
  size_t place = 0;  // of the input; behind them: of targets
  std::optional<Split> split = {};
};

// The only input beside lengths, if there is just one.
std::optional<size_t> only_input(const std::vector<ArrayInput>& inputs) {
  std::optional<size_t> only;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].kind == ArrayKind::kLengths) continue;
    if (only) return std::nullopt;
    only = i;
  }
  return only;
}

std::optional<Role> role_in(const std::string& array, const NamedPlaces& places) {
  const std::string name = in_lower_case(array);
  std::vector<std::string> own;
  for (const ArrayInput& input : places.inputs) own.push_back(in_lower_case(input.name));
  for (const std::string& output : places.outputs) own.push_back(in_lower_case(output));
  for (size_t i = 0; i < own.size(); ++i) {
    if (name == own[i]) return Role{i};
  }
  for (size_t i = 0; i < own.size(); ++i) {
    const auto split = split_beside(name, own[i]);
    if (split) return Role{i, split};
  }
  const auto usual = role_of(array);
  if (!usual) return std::nullopt;
  if (!usual->is_input) {
    return places.outputs.empty() ? std::optional(Role{places.inputs.size(), usual->split})
                                  : std::nullopt;
  }
  const auto only = only_input(places.inputs);
  return only ? std::optional(Role{*only, usual->split}) : std::nullopt;
}

std::string list_of(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

// For all rows, train, validation and test: the names of the arrays.
struct Roles {
  std::array<ArrayNames, 4> names;
  std::vector<std::string> notes = {};
};

Result<Roles> roles_of(const std::filesystem::path& path, const std::vector<std::string>& names,
                       const NamedPlaces& places) {
  Roles roles;
  for (ArrayNames& of_split : roles.names) {
    of_split.resize(places.inputs.size() + places.targets());
  }
  for (const std::string& name : names) {
    const auto role = role_in(name, places);
    if (!role) {
      roles.notes.push_back("the array '" + name + "' is not read: no input " +
                            (places.outputs.empty() ? "" : "or output ") +
                            "of the network is called so");
      continue;
    }
    const size_t split = role->split ? 1 + static_cast<size_t>(*role->split) : 0;
    std::string& place = roles.names[split][role->place];
    if (!place.empty()) {
      return invalid_input(quoted(path) + ": '" + place + "' and '" + name +
                           "' are named as the same; leave one of them out");
    }
    place = name;
  }
  return roles;
}

bool is_empty(const ArrayNames& names) {
  return std::all_of(names.begin(), names.end(), [](const auto& name) { return name.empty(); });
}

// An error for an input of a split, or for targets, without an array.
Status check_complete(const std::filesystem::path& path, const std::vector<std::string>& all,
                      const NamedPlaces& places, const ArrayNames& names,
                      const std::string& split, bool with_targets) {
  const std::vector<ArrayInput>& inputs = places.inputs;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!names[i].empty()) continue;
    return invalid_input(quoted(path) + ": there is no array" + split + " for the input '" +
                         inputs[i].name + "' (" + wanted_text(inputs[i]) + ") among its arrays (" +
                         list_of(all) + "); call it " + inputs[i].name + ", or " + inputs[i].name +
                         "_train and " + inputs[i].name + "_test");
  }
  for (size_t i = 0; with_targets && i < places.outputs.size(); ++i) {
    if (!names[inputs.size() + i].empty()) continue;
    const std::string& output = places.outputs[i];
    return invalid_input(quoted(path) + ": there is no array" + split + " for the output '" +
                         output + "' among its arrays (" + list_of(all) + "); call it " + output +
                         ", or " + output + "_train and " + output + "_test");
  }
  if (!with_targets || !names.back().empty()) return {};
  return invalid_input(quoted(path) + ": there are no" + split + " targets among its arrays (" +
                       list_of(all) + "); call them y, or y_train and y_test");
}

}  // namespace

std::optional<bool> reads_array(const std::string& name, const NamedPlaces& places) {
  const auto role = role_in(name, places);
  return role ? std::optional(role->place < places.inputs.size()) : std::nullopt;
}

std::string wanted_text(const ArrayInput& input) {
  const std::string dims = dims_text(dims_of(input.shape));
  switch (input.kind) {
    case ArrayKind::kPictures:
      return "pictures, uint8 " + dims;
    case ArrayKind::kTokens:
      return "tokens, whole numbers " + dims;
    case ArrayKind::kLengths:
      return "lengths, whole numbers " + dims;
    case ArrayKind::kNumbers:
      break;
  }
  return "numbers " + dims;
}

Result<SplitNames> find_roles(const std::filesystem::path& path,
                              const std::vector<std::string>& names,
                              const NamedPlaces& places) {
  MANTISSA_ASSIGN(Roles roles, roles_of(path, names, places));
  auto& [all, train, validation, test] = roles.names;
  if (!is_empty(all)) {
    if (!is_empty(train)) {
      return invalid_input(quoted(path) +
                           ": has arrays of all examples and arrays of the training examples (" +
                           list_of(names) + "); leave the ones or the others out");
    }
    train = std::move(all);
  }
  SplitNames found{.notes = std::move(roles.notes)};
  struct Place {
    ArrayNames& from;
    ArrayNames& to;
    const char* split;
  };
  for (const Place& place : {Place{train, found.train, " training"},
                             Place{validation, found.validation, " validation"},
                             Place{test, found.test, " test"}}) {
    if (is_empty(place.from) && &place.from != &train) continue;
    const bool is_whole = is_empty(validation) && is_empty(test);
    MANTISSA_RETURN_IF_ERROR(
        check_complete(path, names, places, place.from, is_whole ? "" : place.split, true));
    place.to = std::move(place.from);
  }
  return found;
}

Result<ArrayNames> find_inputs(const std::filesystem::path& path,
                               const std::vector<std::string>& names,
                               const NamedPlaces& places) {
  MANTISSA_ASSIGN(Roles roles, roles_of(path, names, places));
  ArrayNames& all = roles.names[0];
  MANTISSA_RETURN_IF_ERROR(check_complete(path, names, places, all, "", false));
  return std::move(all);
}

}  // namespace mantissa

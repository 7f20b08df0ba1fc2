#include "onnx/import/layout.h"

#include <algorithm>
#include <deque>
#include <numeric>
#include <utility>

namespace mantissa::onnx {
namespace {

std::vector<int> joined(const std::vector<std::vector<int>>& lists) {
  std::vector<int> all;
  for (const std::vector<int>& list : lists) all.insert(all.end(), list.begin(), list.end());
  return all;
}

// Inserts a new atom after an existing one.
void insert_behind(std::vector<int>& atoms, int atom, int next) {
  const auto found = std::find(atoms.begin(), atoms.end(), atom);
  if (found != atoms.end()) atoms.insert(found + 1, next);
}

}  // namespace

Layout Layout::of(std::span<const int64_t> dims) {
  Layout layout;
  for (const int64_t size : dims) layout.append(size);
  return layout;
}

Layout Layout::channels_last(int64_t height, int64_t width, int64_t channels) {
  return of(std::vector<int64_t>{height, width, channels});
}

Layout Layout::image(int64_t height, int64_t width, int64_t channels) {
  Layout layout = channels_last(height, width, channels);
  const int order[] = {2, 0, 1};
  layout.transpose(order);
  return layout;
}

Layout Layout::volume(int64_t depth, int64_t height, int64_t width, int64_t channels) {
  Layout layout = of(std::vector<int64_t>{depth, height, width, channels});
  const int order[] = {3, 0, 1, 2};
  layout.transpose(order);
  return layout;
}

Layout Layout::vector(int64_t count) {
  Layout layout = channels_last(1, 1, count);
  layout.dims_.erase(layout.dims_.begin(), layout.dims_.begin() + 2);
  return layout;
}

int64_t Layout::size_of(std::span<const int> atoms) const {
  int64_t size = 1;
  for (const int atom : atoms) size *= sizes_[atom];
  return size;
}

std::vector<int64_t> Layout::dims() const {
  std::vector<int64_t> sizes;
  for (const std::vector<int>& dim : dims_) sizes.push_back(size_of(dim));
  return sizes;
}

int64_t Layout::count() const { return size_of(stored_); }

void Layout::split(int atom, int64_t outer) {
  const auto inner = static_cast<int>(sizes_.size());
  sizes_.push_back(sizes_[atom] / outer);
  sizes_[atom] = outer;
  insert_behind(stored_, atom, inner);
  for (std::vector<int>& dim : dims_) insert_behind(dim, atom, inner);
}

bool Layout::reshape(std::span<const int64_t> dims) {
  Layout result = *this;
  const std::vector<int> all = joined(dims_);
  std::deque<int> rest(all.begin(), all.end());
  std::vector<std::vector<int>> cut;
  for (const int64_t size : dims) {
    cut.emplace_back();
    for (int64_t wanted = size; wanted > 1;) {
      if (rest.empty()) return false;
      const int atom = rest.front();
      const int64_t has = result.sizes_[atom];
      if (has > wanted) {
        if (has % wanted != 0) return false;
        result.split(atom, wanted);
        rest.insert(rest.begin() + 1, static_cast<int>(result.sizes_.size()) - 1);
      } else if (wanted % has != 0) {
        return false;
      }
      rest.pop_front();
      cut.back().push_back(atom);
      wanted /= result.sizes_[atom];
    }
  }
  if (!rest.empty()) return false;
  result.dims_ = std::move(cut);
  *this = std::move(result);
  return true;
}

void Layout::transpose(std::span<const int> order) {
  std::vector<std::vector<int>> dims;
  for (const int dim : order) dims.push_back(dims_[dim]);
  dims_ = std::move(dims);
}

void Layout::append(int64_t size) {
  dims_.emplace_back();
  if (size == 1) return;
  const auto atom = static_cast<int>(sizes_.size());
  sizes_.push_back(size);
  dims_.back().push_back(atom);
  stored_.push_back(atom);
}

bool Layout::resize_last(int64_t size_now, int64_t size) {
  if (dims_.empty() || size_of(dims_.back()) != size_now) return false;
  const std::vector<int>& last = dims_.back();
  if (last.size() > stored_.size() || !std::equal(last.rbegin(), last.rend(), stored_.rbegin())) {
    return false;
  }
  stored_.resize(stored_.size() - last.size());
  dims_.pop_back();
  append(size);
  return true;
}

bool Layout::narrow(size_t dim, int64_t size) {
  std::vector<int>& atoms = dims_[dim];
  if (atoms.empty()) return size == 1;
  const auto first = std::search(stored_.begin(), stored_.end(), atoms.begin(), atoms.end());
  if (first == stored_.end()) return false;
  const auto place = stored_.erase(first, first + std::ssize(atoms));
  atoms.clear();
  if (size == 1) return true;
  atoms.push_back(static_cast<int>(sizes_.size()));
  sizes_.push_back(size);
  stored_.insert(place, atoms[0]);
  return true;
}

bool Layout::widen(size_t dim, int64_t size, int64_t channels) {
  auto first = stored_.end();
  for (int64_t behind = 1; behind < channels;) {
    if (first == stored_.begin()) return false;
    behind *= sizes_[*--first];
    if (behind > channels) return false;
  }
  std::vector<int>& atoms = dims_[dim];
  if (stored_.end() - first < std::ssize(atoms) || !std::equal(atoms.begin(), atoms.end(), first)) {
    return false;
  }
  first = stored_.erase(first, first + std::ssize(atoms));
  atoms = {static_cast<int>(sizes_.size())};
  sizes_.push_back(size);
  stored_.insert(first, atoms[0]);
  return true;
}

int64_t Layout::step_of(size_t dim) const {
  if (dims_[dim].empty()) return 1;
  const auto last = std::find(stored_.begin(), stored_.end(), dims_[dim].back());
  return size_of(std::span(last + 1, stored_.end()));
}

std::vector<int> Layout::atoms_of(std::span<const int> order) const {
  std::vector<int> atoms;
  for (const int dim : order) atoms.insert(atoms.end(), dims_[dim].begin(), dims_[dim].end());
  return atoms;
}

bool Layout::lies_as(std::span<const int> order) const { return stored_ == atoms_of(order); }

std::optional<int64_t> Layout::shuffle_of_last(std::span<const int> order) const {
  const std::vector<int> wanted = atoms_of(order);
  const auto last = static_cast<std::ptrdiff_t>(dims_[order.back()].size());
  const std::ptrdiff_t front = std::ssize(wanted) - last;
  if (wanted.size() != stored_.size() ||
      !std::equal(wanted.begin(), wanted.begin() + front, stored_.begin())) {
    return std::nullopt;
  }
  const std::span<const int> is(stored_.begin() + front, stored_.end());
  for (std::ptrdiff_t rows = 1; rows < last; ++rows) {
    std::vector<int> turned(is.begin() + rows, is.end());
    turned.insert(turned.end(), is.begin(), is.begin() + rows);
    if (std::equal(turned.begin(), turned.end(), wanted.begin() + front)) {
      return size_of(is.first(static_cast<size_t>(rows)));
    }
  }
  return std::nullopt;
}

std::vector<int64_t> Layout::places() const {
  const std::vector<int> order = joined(dims_);
  if (order == stored_) return {};
  std::vector<int64_t> step(sizes_.size());  // of each atom, among the stored elements
  int64_t all = 1;
  for (auto atom = stored_.rbegin(); atom != stored_.rend(); ++atom) {
    step[*atom] = all;
    all *= sizes_[*atom];
  }
  std::vector<int64_t> places = {0};
  for (const int atom : order) {
    std::vector<int64_t> finer;
    finer.reserve(places.size() * static_cast<size_t>(sizes_[atom]));
    for (const int64_t place : places) {
      for (int64_t i = 0; i < sizes_[atom]; ++i) finer.push_back(place + i * step[atom]);
    }
    places = std::move(finer);
  }
  return places;
}

Layout Layout::merged() const {
  // Atoms that begin a run which both orders share, named in stored order.
  std::vector<int> next_in_dim(sizes_.size(), -1);
  for (const std::vector<int>& dim : dims_) {
    for (size_t i = 1; i < dim.size(); ++i) next_in_dim[dim[i - 1]] = dim[i];
  }
  std::vector<int> name(sizes_.size());
  Layout result;
  for (size_t i = 0; i < stored_.size(); ++i) {
    const int atom = stored_[i];
    if (i > 0 && next_in_dim[stored_[i - 1]] == atom) {
      name[atom] = name[stored_[i - 1]];
      result.sizes_.back() *= sizes_[atom];
      continue;
    }
    name[atom] = static_cast<int>(result.sizes_.size());
    result.sizes_.push_back(sizes_[atom]);
    result.stored_.push_back(name[atom]);
  }
  for (const std::vector<int>& dim : dims_) {
    std::vector<int> names;
    for (const int atom : dim) {
      if (names.empty() || names.back() != name[atom]) names.push_back(name[atom]);
    }
    result.dims_.push_back(std::move(names));
  }
  return result;
}

bool Layout::operator==(const Layout& other) const {
  const Layout a = merged(), b = other.merged();
  return a.sizes_ == b.sizes_ && a.dims_ == b.dims_ && a.stored_ == b.stored_;
}

}  // namespace mantissa::onnx

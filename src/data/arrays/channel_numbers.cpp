#include "data/arrays/channel_numbers.h"

#include <algorithm>
#include <cmath>

#include "data/arrays/array_files.h"
#include "data/tables/table_rows.h"
#include "tensor/table_numbers.h"

namespace mantissa {

std::vector<int64_t> places_of(const Shape& shape) {
  std::vector<int64_t> places = dims_of(shape);
  places.pop_back();
  return places;
}

namespace {

std::vector<int64_t> with_channels_first(const Shape& shape) {
  std::vector<int64_t> dims = places_of(shape);
  dims.insert(dims.begin(), shape.last());
  return dims;
}

}  // namespace

std::string dims_text(const std::vector<int64_t>& dims) {
  std::string text = "[N";
  for (const int64_t dim : dims) text += ", " + std::to_string(dim);
  return text + "]";
}

Result<bool> has_channels_first(const FoundSplit& split, const NpyArray& x, const Shape& shape,
                                ChannelAxis wanted) {
  const std::vector<int64_t> dims(x.shape.begin() + std::min<size_t>(1, x.shape.size()),
                                  x.shape.end());
  const std::vector<int64_t> last = dims_of(shape), first = with_channels_first(shape);
  const bool one_channel = shape.last() == 1 && dims == places_of(shape);
  const bool fits_last = dims == last || one_channel, fits_first = dims == first;
  const bool one_order = shape.last() == 1 || shape.count() == shape.last();
  if (fits_last && fits_first && !one_order && wanted == ChannelAxis::kByShape) {
    return invalid_input(place_of(split, x) +
                         " may have its channels first or last: --channels first, or --channels "
                         "last, says which");
  }
  if (fits_last && wanted != ChannelAxis::kFirst) return false;
  if (fits_first && wanted != ChannelAxis::kLast) return true;
  if (one_channel) return false;
  return invalid_input(place_of(split, x) + " has not the examples that the network takes, " +
                       dims_text(last) + " or with the channels first " + dims_text(first) +
                       (fits_last || fits_first ? ", and --channels names the other" : ""));
}

namespace {

Error infinite_numbers(const FoundSplit& split, const NpyArray& x) {
  return invalid_input(place_of(split, x) + " has infinite numbers");
}

}  // namespace

Result<std::vector<TableColumn>> channel_columns(const FoundSplit& split, const ChannelArray& x) {
  const NumberAt number = number_reader(x.array.type);
  const ChannelOrder& order = x.order;
  struct Sums {
    int64_t count = 0, missing = 0;
    double sum = 0, squares = 0, mean = 0, largest = 0;
  };
  std::vector<Sums> all(static_cast<size_t>(order.channels));
  bool is_finite = true;
  const auto visit = [&](const auto& add) {
    for (int64_t n = 0; n < x.array.shape[0]; ++n) {
      if (!is_of_part(n, split.part)) continue;
      for (int64_t i = 0; i < x.counted(n); ++i) {
        add(all[static_cast<size_t>(order.channel(i))],
            number(x.array, n * order.count() + order.stored(i)));
      }
    }
  };
  visit([&](Sums& sums, double value) {
    if (std::isnan(value)) return void(++sums.missing);
    is_finite = is_finite && std::isfinite(value);
    ++sums.count;
    sums.sum += value;
    sums.largest = std::max(sums.largest, std::abs(value));
  });
  if (!is_finite) return infinite_numbers(split, x.array);
  const bool has_any =
      std::any_of(all.begin(), all.end(), [](const Sums& sums) { return sums.count > 0; });
  if (!has_any) return invalid_input(place_of(split, x.array) + " has no number: all are NaN");
  for (Sums& sums : all) {
    sums.mean = sums.count > 0 ? sums.sum / static_cast<double>(sums.count) : 0;
  }
  visit([](Sums& sums, double value) {
    if (!std::isnan(value)) sums.squares += (value - sums.mean) * (value - sums.mean);
  });
  constexpr double kRounding = 0x1p-42;  // a smaller deviation is rounding alone
  std::vector<TableColumn> columns;
  for (const Sums& sums : all) {
    const double deviation =
        sums.count > 0 ? std::sqrt(sums.squares / static_cast<double>(sums.count)) : 0;
    columns.push_back({.name = std::to_string(columns.size() + 1),
                       .mean = sums.mean,
                       .deviation = deviation > kRounding * sums.largest
                                        ? deviation
                                        : std::max(1.0, sums.largest),
                       .missing = sums.missing});
  }
  return columns;
}

Result<ChangedNumbers> append_standardised(const FoundSplit& split, const ChannelArray& x,
                                           const std::vector<TableColumn>& columns,
                                           std::vector<int16_t>& numbers) {
  const NumberAt number = number_reader(x.array.type);
  const ChannelOrder& order = x.order;
  ChangedNumbers changed;
  for (int64_t n = 0; n < x.array.shape[0]; ++n) {
    if (!is_of_part(n, split.part)) continue;
    const int64_t counted = x.counted(n);
    for (int64_t i = 0; i < counted; ++i) {
      const double value = number(x.array, n * order.count() + order.stored(i));
      if (std::isinf(value)) return infinite_numbers(split, x.array);
      const TableColumn& column = columns[static_cast<size_t>(order.channel(i))];
      const int16_t mantissa =
          std::isnan(value) ? int16_t{0} : standardised(value, column, kFeatureExponent);
      numbers.push_back(mantissa);
      changed.clipped += mantissa == INT16_MAX || mantissa == -INT16_MAX;
      changed.missing += std::isnan(value);
    }
    numbers.resize(numbers.size() + static_cast<size_t>(order.count() - counted));
  }
  return changed;
}

std::vector<std::string> notes_about(const ChangedNumbers& changed, const NpyArray& x) {
  std::vector<std::string> notes;
  const std::string of = " numbers of '" + x.name + "' ";
  if (changed.clipped > 0) {
    notes.push_back(std::to_string(changed.clipped) + of +
                    "lie 8 deviations or more from the mean of their channel, and are clipped "
                    "there");
  }
  if (changed.missing > 0) {
    notes.push_back(std::to_string(changed.missing) + of +
                    "are NaN: they are missing, and count as the mean of their channel");
  }
  return notes;
}

}  // namespace mantissa

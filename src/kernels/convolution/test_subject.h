// Convolutions under test, whatever their entry points, and their results for the same operands.
#pragma once

#include <rapidcheck.h>
#include <sys/mman.h>

#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/bit_counts/piece_counts.h"
#include "kernels/convolution/choice.h"
#include "kernels/convolution/convolution.h"
#include "kernels/kernel_table.h"

namespace mantissa::kernels::test {

struct Subject {
  std::string name;
  std::function<WideStatistics(const ConvolutionForward&, const KernelContext&)> forward;
  std::function<size_t(const ConvolutionShape&, int threads)> forward_scratch_bytes;
  std::function<WideStatistics(const ConvolutionGradInput&, const KernelContext&)> grad_input;
  std::function<size_t(const ConvolutionShape&, int bits, int threads)> grad_input_scratch_bytes;
  std::function<void(const ConvolutionGradWeights&, const KernelContext&)> grad_weights;
  std::function<size_t(const ConvolutionShape&, int bits, int threads)> grad_weights_scratch_bytes;
};

using Choose = std::function<ConvolutionChoice(const ConvolutionWork&)>;

// Computes with the choices that are made for each work.
inline Subject subject_of(const std::string& name, const Choose& choose,
                          const std::function<size_t(const ConvolutionWork&, int)>& scratch_bytes) {
  using enum ConvolutionPass;
  return {.name = name,
          .forward =
              [=](const auto& args, const auto& c) {
                return choose({kForward, args.shape}).forward(args, c);
              },
          .forward_scratch_bytes =
              [=](const auto& shape, int threads) {
                return scratch_bytes({kForward, shape}, threads);
              },
          .grad_input =
              [=](const auto& args, const auto& c) {
                return choose({kGradInput, args.shape, args.grad_output.bits}).grad_input(args, c);
              },
          .grad_input_scratch_bytes =
              [=](const auto& shape, int bits, int threads) {
                return scratch_bytes({kGradInput, shape, bits}, threads);
              },
          .grad_weights =
              [=](const auto& args, const auto& c) {
                choose({kGradWeights, args.shape, args.grad_output.bits}).grad_weights(args, c);
              },
          .grad_weights_scratch_bytes =
              [=](const auto& shape, int bits, int threads) {
                return scratch_bytes({kGradWeights, shape, bits}, threads);
              }};
}

// The same with scratch as each choice says.
inline Subject subject_of(const std::string& name, const Choose& choose) {
  return subject_of(name, choose, [=](const ConvolutionWork& work, int threads) {
    return choose(work).scratch_bytes(threads);
  });
}

// A row by itself, with `below` for the parts of its work.
inline Subject subject_of(const ConvolutionKernels& row,
                          const ConvolutionKernels* below = nullptr) {
  return subject_of(row.name, [&row, below](const ConvolutionWork& work) {
    ConvolutionChoice choice{&row, work, {}};
    if (row.parts == nullptr) return choice;
    for (const ConvolutionWork& part : row.parts(work)) choice.parts.push_back({below, part, {}});
    return choice;
  });
}

// Scratch of the requested size, rounded up to 64 bytes, directly before a page that nobody may
// touch: sanitizers do not see the reads of assembly.
class Scratch {
 public:
  explicit Scratch(size_t bytes)
      : bytes_(bytes), mapped_((bytes + kPage - 1) / kPage * kPage + kPage) {
    void* pages =
        mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED) std::abort();
    pages_ = static_cast<std::byte*>(pages);
    std::byte* end = pages_ + mapped_ - kPage;
    if (mprotect(end, kPage, PROT_NONE) != 0) std::abort();
    begin_ = end - (bytes + 63) / 64 * 64;
    std::memset(begin_, 0xa5, bytes);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch() { munmap(pages_, mapped_); }
  std::span<std::byte> span() { return {begin_, bytes_}; }

 private:
  static constexpr size_t kPage = 4096;
  size_t bytes_, mapped_;
  std::byte *pages_, *begin_;
};

enum class Values { kRandom, kExtreme, kAllMaximum, kMixedSigns };

template <typename T>
std::vector<T> make_values(int64_t count, int limit, Values values, std::mt19937& random) {
  std::vector<T> result(static_cast<size_t>(count));
  std::uniform_int_distribution<int> any(-limit, limit);
  std::uniform_int_distribution<int> coin(0, 2);
  for (T& value : result) {
    if (values == Values::kRandom) value = static_cast<T>(any(random));
    if (values == Values::kExtreme) value = static_cast<T>((coin(random) - 1) * limit);
    if (values == Values::kAllMaximum) value = static_cast<T>(limit);
    if (values == Values::kMixedSigns) value = static_cast<T>(coin(random) == 0 ? -limit : limit);
  }
  return result;
}

struct Results {
  std::vector<int32_t> sums;
  std::vector<int8_t> output;
  std::vector<std::byte> grad_input;
  std::vector<int64_t> accumulator, first_written;
  std::vector<int32_t> int32_sums;  // if they fit
  WideStatistics sums_found, output_found, grad_input_found;
  std::string miscounted;  // empty if the counts were right
  int64_t output_counted = 0, grad_input_counted = 0;
  std::vector<int64_t> output_needs, grad_input_needs;  // by shift
};

// How many of the wide values of pass(counts) need each shift. Adds to `wrong` if the counts of the
// largest of them are not the same.
template <typename Pass>
std::vector<int64_t> count_needs(int threads, int bits, int shift, int64_t elements,
                                 const Pass& pass, std::string& wrong) {
  const auto counted = [&](int64_t most) {
    std::vector<WideCounts> workers(static_cast<size_t>(threads), WideCounts(bits, shift, most));
    pass(PassCounts{nullptr, workers.data()});
    WideCounts sum = workers[0];
    for (size_t i = 1; i < workers.size(); ++i) sum = sum + workers[i];
    return sum;
  };
  const WideCounts all = counted(INT64_MAX);
  std::vector<int64_t> needs;
  for (int s = 0; s <= WideCounts::kMostShift; ++s) needs.push_back(all.needing(s));
  const int64_t most = elements / 50;
  const WideCounts some = counted(most);
  int64_t clipped = 0;  // below the floor
  for (int s = some.floor; s <= WideCounts::kMostShift; ++s) {
    const int64_t needing = needs[static_cast<size_t>(s)];
    if (s > some.floor && some.needing(s) != needing) wrong += "wide counts differ; ";
    clipped += needing;
  }
  if (some.floor > 0 && clipped <= most) wrong += "wide values below the floor count; ";
  return needs;
}

// Empty if nothing was counted, or if all `count` mantissas were counted rightly.
inline std::string miscount(const char* what, const PieceCounts& counts,
                            ConstMantissaSpan mantissas, int64_t count) {
  LargeCounts expected = {};
  kBitCountsReference.count_large(mantissas, 0, count, expected);
  if (counts.elements() == 0) return "";
  if (counts.elements() == count && counts.large() == expected) return "";
  return std::string(what) + ": counted " + std::to_string(counts.elements()) + " of " +
         std::to_string(count) + ", or wrongly; ";
}

struct Operands {
  ConvolutionShape shape;
  int value_bits = 8;        // of narrowed results
  int bits = 16;             // of the gradient of the output
  int grad_input_bits = 16;  // `bits`, or 16
  std::vector<int8_t> input, weights;
  std::vector<int32_t> bias;
  std::vector<std::byte> grad_output;
  std::vector<int64_t> accumulator;
  int forward_shift = 0, grad_input_shift = 0, grad_weights_shift = 0;

  // The seed also chooses the shifts, the gradients' widths and whether there is a bias.
  Operands(const ConvolutionShape& s, Values values, uint32_t seed) : shape(s) {
    std::mt19937 random(seed);
    constexpr int kForwardShifts[] = {0, 7, 12, 9, 24, 16, 1};
    constexpr int kGradInputShifts[] = {0, 1, 7, 12, 16, 17, 20, 29, 30, 31, 32, 33, 40, 62};
    constexpr int kGradWeightsShifts[] = {0, 1, 9, 20, 31, 33, 48, 62, 63, -1, -20, -40, -61, -70};
    constexpr int kBits[] = {16, 8, 16, 12, 8, 6};
    forward_shift = kForwardShifts[seed % std::size(kForwardShifts)];
    grad_input_shift = kGradInputShifts[seed % std::size(kGradInputShifts)];
    grad_weights_shift = kGradWeightsShifts[seed % std::size(kGradWeightsShifts)];
    constexpr int kValueBits[] = {8, 8, 4, 8, 2};
    value_bits = kValueBits[seed % std::size(kValueBits)];
    if (value_bits < 8 && seed / 5 % 2 != 0) {  // the largest that leave any of 32 bits
      forward_shift = 24 + static_cast<int>(seed / 10) % (9 - value_bits);
    }
    bits = kBits[seed % std::size(kBits)];
    grad_input_bits = seed % 4 == 0 ? 16 : bits;
    input = make_values<int8_t>(s.input_count(), 127, values, random);
    weights = make_values<int8_t>(s.weights_count(), 127, values, random);
    if (seed % 3 != 0) bias = make_values<int32_t>(s.out_channels, 1 << 30, values, random);
    accumulator = make_values<int64_t>(s.weights_count(), 1 << 30, values, random);
    with_gradient_type(bits, [&](auto type) {
      const int limit = (1 << (bits - 1)) - 1;
      set_grad_output(make_values<decltype(type)>(s.output_count(), limit, values, random));
    });
  }

  template <typename T>
  void set_grad_output(const std::vector<T>& values) {
    const auto bytes = std::as_bytes(std::span(values));
    grad_output.assign(bytes.begin(), bytes.end());
  }

  bool sums_fit_int32() const {
    std::vector<int64_t> magnitudes(static_cast<size_t>(shape.out_channels));
    kElementwiseReference.sum_magnitudes({grad_output.data(), bits}, shape.out_channels, 0,
                                         shape.batch * shape.out_height * shape.out_width,
                                         magnitudes.data());
    return *std::max_element(magnitudes.begin(), magnitudes.end()) <=
           most_magnitudes_of_int32_sums(8);
  }

  Results run(const Subject& subject, int threads) const {
    ThreadPool pool(threads);
    Results r;
    r.sums.resize(static_cast<size_t>(shape.output_count()), 12345);
    r.output.resize(r.sums.size(), 77);
    r.grad_input.resize(input.size() * static_cast<size_t>(gradient_bytes(grad_input_bits)),
                        std::byte{77});
    r.accumulator = accumulator;
    Scratch forward(subject.forward_scratch_bytes(shape, threads));
    ConvolutionForward args{.shape = shape,
                            .input = input.data(),
                            .weights = weights.data(),
                            .bias = bias.empty() ? nullptr : bias.data(),
                            .sums = r.sums.data()};
    r.sums_found = subject.forward(args, {&pool, forward.span()});
    args.sums = nullptr;
    args.output = r.output.data();
    args.bits = value_bits;
    args.shift = forward_shift;
    PieceCounts of_output(kBitCountsReference, threads);
    PieceCounts of_grad_input(kBitCountsReference, threads);
    args.counts.written = &of_output;
    r.output_found = subject.forward(args, {&pool, forward.span()});
    r.output_counted = of_output.elements();
    r.miscounted +=
        miscount("output", of_output, {r.output.data(), value_bits}, shape.output_count());
    r.output_needs = count_needs(
        threads, value_bits, forward_shift, shape.output_count(),
        [&](const PassCounts& counts) {
          args.counts = counts;
          subject.forward(args, {&pool, forward.span()});
        },
        r.miscounted);
    const ConstMantissaSpan gradient{grad_output.data(), bits};
    Scratch backward(subject.grad_input_scratch_bytes(shape, bits, threads));
    const MantissaSpan grad_in{r.grad_input.data(), grad_input_bits};
    r.grad_input_found = subject.grad_input(
        {shape, gradient, weights.data(), grad_input_shift, grad_in, {&of_grad_input}},
        {&pool, backward.span()});
    r.grad_input_counted = of_grad_input.elements();
    r.miscounted += miscount("grad_input", of_grad_input, grad_in, shape.input_count());
    r.grad_input_needs = count_needs(
        threads, grad_input_bits, grad_input_shift, shape.input_count(),
        [&](const PassCounts& counts) {
          subject.grad_input({shape, gradient, weights.data(), grad_input_shift, grad_in, counts},
                             {&pool, backward.span()});
        },
        r.miscounted);
    Scratch update(subject.grad_weights_scratch_bytes(shape, bits, threads));
    ConvolutionGradWeights sums{
        shape, input.data(), gradient, grad_weights_shift, {r.accumulator.data()}};
    subject.grad_weights(sums, {&pool, update.span()});
    r.first_written = accumulator;
    sums.totals.data = r.first_written.data();
    sums.adds = false;
    subject.grad_weights(sums, {&pool, update.span()});
    if (sums_fit_int32()) {
      r.int32_sums.resize(accumulator.size(), 77);
      sums.totals = {r.int32_sums.data(), 32};
      subject.grad_weights(sums, {&pool, update.span()});
    }
    return r;
  }
};

template <typename T>
std::string first_difference(const char* what, const std::vector<T>& expected,
                             const std::vector<T>& actual) {
  for (size_t i = 0; i < expected.size(); ++i) {
    if (expected[i] == actual[i]) continue;
    return std::string(what) + ": element " + std::to_string(i) + " is " +
           std::to_string(static_cast<int64_t>(actual[i])) + ", not " +
           std::to_string(static_cast<int64_t>(expected[i])) + "; ";
  }
  return "";
}

inline std::string first_difference(const char* what, const WideStatistics& expected,
                                    const WideStatistics& actual) {
  if (expected.maximum == actual.maximum && expected.saturated == actual.saturated) return "";
  return std::string(what) + ": maximum " + std::to_string(actual.maximum) + " (" +
         std::to_string(expected.maximum) + "), saturated " + std::to_string(actual.saturated) +
         " (" + std::to_string(expected.saturated) + "); ";
}

// Empty if all results are equal.
inline std::string difference(const Results& expected, const Results& actual) {
  return actual.miscounted + first_difference("sums", expected.sums, actual.sums) +
         first_difference("the sums' statistics", expected.sums_found, actual.sums_found) +
         first_difference("output", expected.output, actual.output) +
         first_difference("the output's statistics", expected.output_found, actual.output_found) +
         first_difference("grad_input's bytes", expected.grad_input, actual.grad_input) +
         first_difference("grad_input's statistics", expected.grad_input_found,
                          actual.grad_input_found) +
         first_difference("output's needs", expected.output_needs, actual.output_needs) +
         first_difference("grad_input's needs", expected.grad_input_needs,
                          actual.grad_input_needs) +
         first_difference("accumulator", expected.accumulator, actual.accumulator) +
         first_difference("accumulator written first", expected.first_written,
                          actual.first_written) +
         first_difference("int32 sums", expected.int32_sums, actual.int32_sums);
}

inline std::string describe(const ConvolutionShape& s) {
  std::ostringstream text;
  text << s.batch << "x" << s.in_height << "x" << s.in_width << "x" << s.in_channels << " -> "
       << s.out_height << "x" << s.out_width << "x" << s.out_channels << ", kernel "
       << s.kernel_height << "x" << s.kernel_width << ", stride " << s.stride_height << "x"
       << s.stride_width << ", padding " << s.padding_height << "x" << s.padding_width
       << ", groups " << s.groups << ", dilation " << s.dilation;
  return text.str();
}

// Empty if every subject agrees with the reference, with each number of threads.
inline std::string disagreement(const std::vector<Subject>& subjects, const Operands& operands,
                                const std::vector<int>& threads) {
  const Results expected = operands.run(subject_of(kConvolutionReference), 1);
  for (const Subject& subject : subjects) {
    for (const int count : threads) {
      const std::string found = difference(expected, operands.run(subject, count));
      if (found.empty()) continue;
      std::ostringstream text;
      text << subject.name << ", " << count << " threads, " << describe(operands.shape)
           << ", shifts " << operands.forward_shift << " " << operands.grad_input_shift << " "
           << operands.grad_weights_shift << ", values of " << operands.value_bits
           << " bits, gradients of " << operands.bits << " and " << operands.grad_input_bits
           << " bits: " << found;
      return text.str();
    }
  }
  return "";
}

using Rows = std::vector<const ConvolutionKernels*>;

// The rows that do all of this work themselves and that this CPU can run, the reference first.
inline Rows rows_for(const ConvolutionWork& work) {
  Rows rows;
  for (const ConvolutionKernels* row : select_kernels(cpu_features()).convolution) {
    if (row->parts == nullptr && row->declines(work) == nullptr) rows.push_back(row);
  }
  return rows;
}

// All of them but the reference.
inline std::vector<Subject> fast_subjects(const ConvolutionWork& work) {
  std::vector<Subject> subjects;
  for (const ConvolutionKernels* row : rows_for(work)) {
    if (row != &kConvolutionReference) subjects.push_back(subject_of(*row));
  }
  return subjects;
}

// The choices that operators make, for each instruction set, with scratch as they plan it.
inline std::vector<Subject> chosen_subjects() {
  std::vector<Subject> subjects;
  for (const Isa isa : kAllIsas) {
    if (!is_supported(isa)) continue;
    const Rows rows = select_kernels(isa).convolution;
    subjects.push_back(subject_of(
        "chosen for " + std::string(isa_name(isa)),
        [=](const ConvolutionWork& work) { return choose_convolution(rows, work); },
        [=](const ConvolutionWork& work, int threads) {
          return convolution_scratch_bytes(rows, work, threads);
        }));
  }
  return subjects;
}

inline ConvolutionShape shape_of(int64_t batch, int64_t height, int64_t width, int64_t channels,
                                 int64_t out_channels, int64_t kernel, int64_t stride,
                                 int64_t padding, int64_t groups = 1) {
  return {.batch = batch,
          .in_height = height,
          .in_width = width,
          .in_channels = channels,
          .out_height = (height + 2 * padding - kernel) / stride + 1,
          .out_width = (width + 2 * padding - kernel) / stride + 1,
          .out_channels = out_channels,
          .kernel_height = kernel,
          .kernel_width = kernel,
          .stride_height = stride,
          .stride_width = stride,
          .padding_height = padding,
          .padding_width = padding,
          .groups = groups};
}

inline int64_t extent(int low, int high) { return *rc::gen::inRange<int64_t>(low, high + 1); }

// All of a shape except its channels. With two strides the axes may have different ones.
inline ConvolutionShape random_window(int strides = 1) {
  ConvolutionShape s;
  s.kernel_height = extent(1, 6);
  s.kernel_width = extent(1, 6);
  s.stride_height = extent(1, 4);
  s.stride_width = strides == 1 ? s.stride_height : extent(1, 4);
  s.padding_height = extent(0, 5);
  s.padding_width = extent(0, 5);
  s.in_height = extent(1, 20);
  s.in_width = extent(1, 40);
  s.batch = extent(1, 9);
  RC_PRE(s.in_height + 2 * s.padding_height >= s.kernel_height);
  RC_PRE(s.in_width + 2 * s.padding_width >= s.kernel_width);
  s.out_height = (s.in_height + 2 * s.padding_height - s.kernel_height) / s.stride_height + 1;
  s.out_width = (s.in_width + 2 * s.padding_width - s.kernel_width) / s.stride_width + 1;
  // A causal convolution has fewer results than fit.
  if (extent(0, 1) == 1) s.out_width = std::max<int64_t>(1, s.out_width - extent(0, 5));
  return s;
}

inline void check_random(const std::vector<Subject>& subjects, const ConvolutionShape& s,
                         int64_t multiply_adds) {
  RC_PRE(s.multiply_adds() < multiply_adds);
  const auto values = *rc::gen::element(Values::kRandom, Values::kExtreme, Values::kAllMaximum,
                                        Values::kMixedSigns);
  const auto seed = *rc::gen::arbitrary<uint32_t>();
  const auto threads = static_cast<int>(extent(1, 8));
  const std::string found = disagreement(subjects, {s, values, seed}, {threads});
  if (!found.empty()) RC_FAIL(found);
}

// Compares the subjects with the reference on each shape, with all kinds of values, shifts and
// widths.
inline void check_shapes(const std::vector<Subject>& subjects,
                         std::span<const ConvolutionShape> shapes) {
  for (const ConvolutionShape& shape : shapes) {
    uint32_t seed = 1;
    for (const Values values : {Values::kRandom, Values::kExtreme, Values::kMixedSigns}) {
      EXPECT_EQ(disagreement(subjects, {shape, values, seed++}, {1, 3}), "");
    }
    for (; seed < 15; ++seed) {
      EXPECT_EQ(disagreement(subjects, {shape, Values::kRandom, seed}, {2}), "");
    }
  }
}

// The same on random shapes of one group of channels.
inline void check_random_shapes(const std::vector<Subject>& subjects) {
  EXPECT_TRUE(rc::check("convolutions equal the reference", [&] {
    ConvolutionShape s = random_window();
    s.in_channels = extent(1, 40);
    s.out_channels = extent(1, 40);
    check_random(subjects, s, 1'000'000);
  }));
}

}  // namespace mantissa::kernels::test

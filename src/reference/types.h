// The reference: every integer row of the engine as a function of freestanding C99. It is the
// specification, the scalar rows of the kernel tables, and the oracle of the kernels' tests.
//
// Nothing here allocates, calls itself, keeps a state or computes with floats: sizes and strides
// are arguments. C++ sees the same structures, with initial values and functions on members; the
// layout is the same. Left shifts of negative numbers are products; right shifts are arithmetic.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
#define REF_CXX(...) __VA_ARGS__
// Declarations between REF_BEGIN and REF_END are functions of C.
#define REF_BEGIN extern "C" {
#define REF_END }
#define REF_NOEXCEPT noexcept
// One definition for both languages, also in constant expressions.
#define REF_INLINE constexpr
#if defined(__clang__)
// Structures with initial values are returned as C returns them.
#pragma clang diagnostic ignored "-Wreturn-type-c-linkage"
#endif
namespace mantissa {
enum class RandomStream : uint32_t;  // base/random.h
}
typedef mantissa::RandomStream RefRandomStream;
#else
#define REF_CXX(...)
#define REF_BEGIN
#define REF_END
#define REF_NOEXCEPT
#define REF_INLINE static inline
typedef uint32_t RefRandomStream;
typedef char RefShiftsAreArithmetic[(-3 >> 1) == -2 ? 1 : -1];
#endif

// Mantissas of up to 8 bits are kept as int8, of up to 16 as int16, else as int32: symmetric.
typedef struct RefConstSpan {
  const void* data REF_CXX(= nullptr);
  int bits REF_CXX(= 16);
#ifdef __cplusplus
  template <typename T>
  const T* as() const {
    return static_cast<const T*>(data);
  }
#endif
} RefConstSpan;

typedef struct RefSpan {
  void* data REF_CXX(= nullptr);
  int bits REF_CXX(= 16);
#ifdef __cplusplus
  template <typename T>
  T* as() const {
    return static_cast<T*>(data);
  }
  // NOLINTNEXTLINE(google-explicit-constructor): as a pointer becomes one to const
  operator RefConstSpan() const { return {data, bits}; }
  // From an element on.
  RefSpan from(int64_t element) const {
    return {static_cast<char*>(data) + element * (bits <= 8 ? 1 : bits <= 16 ? 2 : 4), bits};
  }
#endif
} RefSpan;

// Sums over the batch, of a parameter's gradient or on the way to it: int64, or int32 (bits 32) if
// no sum can leave it.
typedef struct RefSums {
  void* data REF_CXX(= nullptr);
  int bits REF_CXX(= 64);
#ifdef __cplusplus
  RefSums() = default;
  // Not an aggregate: in the braces of an outer aggregate it would take the next member as its own.
  // NOLINTNEXTLINE(google-explicit-constructor): as a pointer to int64
  RefSums(void* sums, int sum_bits = 64) : data(sums), bits(sum_bits) {}
  template <typename T>
  T* as() const {
    return static_cast<T*>(data);
  }
  // From an element on.
  RefSums from(int64_t element) const {
    return {static_cast<char*>(data) + element * (bits / 8), bits};
  }
#endif
} RefSums;

// Statistics of a pass over wide results.
typedef struct RefStatistics {
  uint64_t maximum REF_CXX(= 0);   // max |wide result|, before any shift
  int64_t saturated REF_CXX(= 0);  // results that were clipped when narrowed
#ifdef __cplusplus
  RefStatistics& operator+=(const RefStatistics& other) {
    maximum = maximum < other.maximum ? other.maximum : maximum;
    saturated += other.saturated;
    return *this;
  }
#endif
} RefStatistics;

// The key that a random number per element is a function of, besides the element: Philox4x32-10
// blocks with the counter {block, tensor, micro_batch, stream}.
typedef struct RefRandomKey {
  RefRandomStream stream REF_CXX(= RefRandomStream(4));  // rounding
  uint64_t seed REF_CXX(= 0);
  uint32_t micro_batch REF_CXX(= 0);  // counted over the whole run; of updates the step
  uint32_t tensor REF_CXX(= 0);
} RefRandomKey;

REF_BEGIN

// Four words of 32 random bits.
void ref_random_block(const RefRandomKey* key, uint32_t index, uint32_t* words) REF_NOEXCEPT;

REF_END

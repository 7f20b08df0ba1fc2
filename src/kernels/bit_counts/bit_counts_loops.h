// The counting loops, written once and compiled per instruction set.
//
// Include inside an anonymous namespace of mantissa::kernels, after the set's lanes of bytes.

template <typename T>
using Vector [[gnu::vector_size(kVectorBytes)]] = T;

template <typename T>
inline int64_t sum_lanes(const Vector<T>& lanes) {
  int64_t sum = 0;
  for (size_t lane = 0; lane < kVectorBytes / sizeof(T); ++lane) sum += lanes[lane];
  return sum;
}

// The uppermost four bits below the sign of magnitudes of bits - 1 bits: they tell in which of the
// counts one is.
inline Bytes top_bits(const int8_t* in, int bits) {
  Bytes mantissas;
  std::memcpy(&mantissas, in, kVectorBytes);
  const auto shifted = reinterpret_cast<Bytes>(reinterpret_cast<Words>(absolute(mantissas)) >>
                                               static_cast<uint16_t>(bits - 5));
  return shifted & 15;
}

inline Bytes top_bits(const int16_t* in, int bits) {
  Words mantissas[2];
  std::memcpy(mantissas, in, 2 * kVectorBytes);
  const auto shift = static_cast<uint16_t>(bits - 5);
  return pack(absolute(mantissas[0]) >> shift, absolute(mantissas[1]) >> shift);
}

// By the uppermost four bits, for each part of 16 bytes: one in field k if they are 2^(3-k) or
// more.
constexpr auto kFields = [] {
  std::array<uint8_t, kVectorBytes> fields = {};
  for (size_t lane = 0; lane < kVectorBytes; ++lane) {
    for (size_t k = 0; k < 4; ++k) {
      if (lane % 16 >= size_t{8} >> k) fields[lane] += static_cast<uint8_t>(1 << (2 * k));
    }
  }
  return fields;
}();
constexpr int64_t kGroupVectors = 15;  // whose counts a field of four bits holds

// `groups` of kGroupVectors vectors of bytes. Four counts in the fields of a byte, two bits wide,
// then four, then eight. A field never takes more additions than it can hold. Sums of many vectors
// cost little more than the sums of their fields.
template <typename T>
inline void count_by_fields(const T* in, int64_t groups, int bits, LargeCounts& large) {
  static_assert(kFinerExponents == 4 && kGroupVectors <= 15);
  constexpr int64_t kStep = kVectorBytes;  // elements of a vector of bytes
  constexpr int64_t kHeld = 17;            // groups whose counts, 15 each, a byte holds
  static_assert(kHeld * kGroupVectors <= 255);
  Bytes table;
  std::memcpy(&table, kFields.data(), kVectorBytes);
  for (int64_t begin = 0; begin < groups; begin += kHeld) {
    Bytes counts[4] = {};
    for (int64_t group = begin; group < std::min(groups, begin + kHeld); ++group) {
      Bytes even = {}, odd = {};
      for (int64_t i = 0; i < kGroupVectors; i += 3, in += 3 * kStep) {
        const Bytes three = look_up(table, top_bits(in, bits)) +
                            look_up(table, top_bits(in + kStep, bits)) +
                            look_up(table, top_bits(in + 2 * kStep, bits));
        even += three & 0x33;
        odd += reinterpret_cast<Bytes>(reinterpret_cast<Words>(three) >> 2) & 0x33;
      }
      counts[0] += even & 15;
      counts[1] += odd & 15;
      counts[2] += reinterpret_cast<Bytes>(reinterpret_cast<Words>(even) >> 4) & 15;
      counts[3] += reinterpret_cast<Bytes>(reinterpret_cast<Words>(odd) >> 4) & 15;
    }
    for (size_t k = 0; k < 4; ++k) large[k] += sum_lanes<uint8_t>(counts[k]);
  }
}

// Whole vectors; comparisons give -1, and a lane of 8 bits holds 127 of them.
template <typename T>
inline void count_vectors(const T* in, int64_t vectors, int bits, LargeCounts& large) {
  constexpr int64_t kHeld = 127;
  constexpr int64_t kLanes = kVectorBytes / sizeof(T);
  Vector<T> from[kFinerExponents];
  for (int k = 0; k < kFinerExponents; ++k) {
    from[k] = static_cast<T>(large_from(bits, k) - 1) - Vector<T>{};
  }
  for (int64_t first = 0; first < vectors; first += kHeld) {
    Vector<T> counts[kFinerExponents] = {};
    const int64_t last = std::min(vectors, first + kHeld);
    for (int64_t v = first; v < last; ++v) {
      Vector<T> mantissas;
      std::memcpy(&mantissas, in + v * kLanes, kVectorBytes);
      const Vector<T> sizes = mantissas < 0 ? -mantissas : mantissas;
      for (int k = 0; k < kFinerExponents; ++k) counts[k] -= sizes > from[k];
    }
    for (int k = 0; k < kFinerExponents; ++k) {
      large[static_cast<size_t>(k)] += sum_lanes<T>(counts[k]);
    }
  }
}

void count_large(ConstMantissaSpan mantissas, int64_t begin, int64_t end,
                 LargeCounts& large) noexcept {
  with_wide_gradient_type(mantissas.bits, [&](auto type) {
    using T = decltype(type);
    const T* in = mantissas.as<T>();
    if constexpr (sizeof(T) <= 2) {
      if (mantissas.bits >= kFinerExponents + 1) {
        constexpr int64_t kGroup = kGroupVectors * int64_t{kVectorBytes};
        const int64_t groups = (end - begin) / kGroup;
        count_by_fields(in + begin, groups, mantissas.bits, large);
        begin += groups * kGroup;
      }
    }
    constexpr int64_t kLanes = kVectorBytes / sizeof(T);
    const int64_t vectors = (end - begin) / kLanes;
    count_vectors(in + begin, vectors, mantissas.bits, large);
    begin += vectors * kLanes;
  });
  kBitCountsReference.count_large(mantissas, begin, end, large);
}

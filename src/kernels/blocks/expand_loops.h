// Included once per instruction set, inside an anonymous namespace of mantissa::kernels, after the
// set's lanes of integers.
//
// A block of 4-bit weights has 16 values at most, of 3-bit weights 8: they are rounded once each,
// into a table, and the weights look them up. Blocks are taken 32 weights at a time, a part.

constexpr int64_t kWeights = REF_PART_WEIGHTS, kEntries = 16;
constexpr int64_t kWordLanes = sizeof(Words) / sizeof(int32_t);
constexpr int64_t kGroup = 16;  // parts whose tables are made before they are read: whole blocks
using UnsignedWords [[gnu::vector_size(sizeof(Words))]] = uint32_t;

// Shifts at which weights of magnitudes below 2^(shift + 7), and what rounding adds, fit 32 bits.
constexpr int kLeastShift = 1, kMostShift = 23;

// Rounds weights in units of 2^-24 to nearest even.
struct RowRounding {
  int shift;

  Words operator()(UnsignedWords weights) const {
    const auto numbers = reinterpret_cast<Words>(weights);
    const Words below = Words{} + ((int32_t{1} << (shift - 1)) - 1);
    const Words rounded = (numbers + below + ((numbers >> shift) & 1)) >> shift;
    const Words most = Words{} + 127, least = Words{} - 127;
    const Words above = rounded < least ? least : rounded;
    return above > most ? most : above;
  }
};

// The low 32 bits: sums and products below need no others, since the weights fit.
inline uint32_t low_bits(int64_t number) { return static_cast<uint32_t>(number); }

// The values of a block's 16 possible weights, twice. Values that no weight has may be anything.
inline void write_table(const uint8_t* block, RefBlockKind kind, const RowRounding& round,
                        int8_t* table) {
  const int64_t scale = ref_half_in_units(block);
  const int64_t least = kind == REF_Q4_1              ? ref_half_in_units(block + 2)
                        : ref_block_bits(kind) == 3 ? -4 * scale
                                                    : -8 * scale;
  UnsignedWords places = {};
  for (int64_t i = 0; i < kWordLanes; ++i) places[i] = static_cast<uint32_t>(i);
  for (int64_t at = 0; at < kEntries; at += kWordLanes) {
    const Words values =
        round((places + static_cast<uint32_t>(at)) * low_bits(scale) + low_bits(least));
    store_words(table + at, values);
    store_words(table + kEntries + at, values);
  }
}

// The places of 32 weights in their table, eight to a number. Copies into an array whose rest the
// compiler does not know are calls (_FORTIFY_SOURCE), which took as long as all else.
using Places = uint64_t[kWeights / 8];

inline void write_places_of_4(const uint8_t* q, Places& places) {
  constexpr uint64_t kLowBits = 0x0f0f0f0f0f0f0f0f;
  uint64_t two[2];
  std::memcpy(two, q, sizeof two);
  for (int k = 0; k < 2; ++k) {
    places[k] = two[k] & kLowBits;
    places[2 + k] = two[k] >> 4 & kLowBits;
  }
}

// The same of 3 bits: eight weights have their low bits in eight bytes, at the same place in each,
// and their third bits in the last four bytes, at two.
inline void write_places_of_3(const uint8_t* q, Places& places) {
  constexpr uint64_t kLowBits = 0x0303030303030303;
  constexpr uint32_t kThirdBits = 0x01010101;
  uint64_t low;
  uint32_t high;
  std::memcpy(&low, q, sizeof low);
  std::memcpy(&high, q + sizeof low, sizeof high);
  for (int k = 0; k < 4; ++k) {
    const uint64_t third = (high >> 2 * k & kThirdBits) |
                           uint64_t{high >> (2 * k + 1) & kThirdBits} << 32;
    places[k] = (low >> 2 * k & kLowBits) | third << 2;
  }
}

// Tables and places of so many parts, from the beginning of a block on.
inline void write_parts(const uint8_t* block, RefBlockKind kind, int64_t parts,
                        const RowRounding& round, int8_t* tables, Places* places) {
  const int64_t of_block = ref_block_parts(kind), part_bytes = ref_part_bytes(kind);
  for (int64_t p = 0; p < parts; block += ref_block_bytes(kind)) {
    const uint8_t* q = block + ref_scale_bytes(kind);
    write_table(block, kind, round, tables + p * kWeights);
    for (int64_t i = 0; i < of_block; ++i, ++p, q += part_bytes) {
      if (i > 0) std::copy_n(tables + (p - 1) * kWeights, kWeights, tables + p * kWeights);
      ref_block_bits(kind) == 3 ? write_places_of_3(q, places[p]) : write_places_of_4(q, places[p]);
    }
  }
}

inline void expand_by_tables(const uint8_t* row, RefBlockKind kind, int64_t count,
                             const RowRounding& round, int8_t* out) {
  constexpr auto kBytes = static_cast<int64_t>(sizeof(Bytes));
  const int64_t of_block = ref_block_parts(kind), parts = count * of_block;
  alignas(64) int8_t tables[kGroup * kWeights] = {};
  alignas(64) Places places[kGroup] = {};
  for (int64_t first = 0; first < parts; first += kGroup) {
    const int64_t here = std::min(kGroup, parts - first);
    write_parts(row + first / of_block * ref_block_bytes(kind), kind, here, round, tables, places);
    const auto look_up = [&](int64_t at) {
      Bytes table, place;
      std::memcpy(&table, tables + at, kBytes);
      std::memcpy(&place, reinterpret_cast<const int8_t*>(places) + at, kBytes);
      return picked_from(table, place);
    };
    int8_t* const to = out + first * kWeights;
    const int64_t all = here * kWeights, whole = all / kBytes * kBytes;
    for (int64_t at = 0; at < whole; at += kBytes) {
      const Bytes weights = look_up(at);
      std::memcpy(to + at, &weights, kBytes);
    }
    if (whole == all) continue;
    const Bytes weights = look_up(whole);
    std::memcpy(to + whole, &weights, static_cast<size_t>(all - whole));
  }
}

inline void expand_bytes(const uint8_t* row, int64_t count, const RowRounding& round, int8_t* out) {
  for (int64_t b = 0; b < count; ++b) {
    const uint8_t* block = row + b * ref_block_bytes(REF_Q8_0);
    const uint32_t scale = low_bits(ref_half_in_units(block));
    const auto* q = reinterpret_cast<const int8_t*>(block + 2);
    for (int64_t i = 0; i < kWeights; i += kWordLanes) {
      const auto weights = reinterpret_cast<UnsignedWords>(load_words(q + i));
      store_words(out + b * kWeights + i, round(weights * scale));
    }
  }
}

void expand(const ExpandBlocks& args, int64_t begin_row, int64_t end_row) noexcept {
  for (int64_t row = begin_row; row < end_row; ++row) {
    const int shift = args.exponents[row] - REF_BLOCK_UNIT;
    if (shift < kLeastShift || shift > kMostShift) {
      ref_expand_blocks(&args, row, row + 1);
      continue;
    }
    const uint8_t* from = args.blocks + row * args.row_bytes;
    int8_t* to = args.out + row * args.count * ref_weights_of_block(args.kind);
    if (args.kind == REF_Q8_0) {
      expand_bytes(from, args.count, {shift}, to);
    } else {
      expand_by_tables(from, args.kind, args.count, {shift}, to);
    }
  }
}

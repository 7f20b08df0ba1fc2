#include "device/training_files.h"

#include "device/build_files.h"

namespace mantissa::device {
namespace {

constexpr const char* kTrainingHeader =
    R"C(// Training of @model@ (@format@, @optimizer@) for machines without an operating system, written by
// Mantissa. A step computes the bits that `mantissa train` computes with the same settings.
//
// It calls no library, allocates nothing, and computes without floating point. All of its memory is
// a @p@_training and the stack; several may be used at once.
#ifndef @P@_TRAINING_H
#define @P@_TRAINING_H

#ifdef __cplusplus
extern "C" {
#endif

#include "device/training/program.h"
#include "device/training/saved.h"
#include "device/training/shuffle.h"  // the order of examples

enum {
  @P@_BATCH = @batch@,  // examples of a step
  @P@_STATE_BYTES = @state_bytes@,
  @P@_ARENA_BYTES = @arena_bytes@,
  @P@_SAVED_BYTES = @P@_STATE_BYTES + DEV_SAVED_HEADER_BYTES
};

typedef struct @p@_training {
  int64_t step;  // steps done
  union {
    int64_t aligned;
    uint8_t bytes[@P@_STATE_BYTES];
  } state;
  union {
    int64_t aligned;
    uint8_t bytes[@P@_ARENA_BYTES];
  } arena;
  DevCounts counts[@counts@];
  int16_t exponents[@exponents@];
  int16_t measured[@measured@];
  int8_t channel_exponents[@channels@];
  uint8_t violated[@guards@];
} @p@_training;

typedef struct @p@_result {
  // Sums over the examples: the loss, in units of 2^-24 @loss_unit@; examples that the network
  // classified right before the step; examples.
  int64_t loss, correct, examples;
  int64_t clipped;  // mantissas
} @p@_result;

// The state that the program was written with, after @step@ steps.
void @p@_begin(@p@_training* training);

// One step on a batch of @P@_BATCH examples:
@inputs@// False if training diverged: load an earlier state.
bool @p@_step(@p@_training* training, @parameters@, @p@_result* result);

// The same with a learning rate of the caller: the bits of a double (0x3fb999999999999a is 0.1).
bool @p@_step_with_rate(@p@_training* training, @parameters@, uint64_t rate, @p@_result* result);

// The state as one block of bytes, the same on every machine, to keep and to bring back: `mantissa
// import` reads it. Loading refuses a block of another program, and a damaged one.
void @p@_save(const @p@_training* training, uint8_t block[@P@_SAVED_BYTES]);
DevLoaded @p@_load(@p@_training* training, const uint8_t block[@P@_SAVED_BYTES]);

#ifdef __cplusplus
}
#endif

#endif
)C";

constexpr const char* kTrainingSource = R"C(
static const DevProgram program = {
    .dynamic = @dynamic@,
    .rules = @rules@,
    .predictors = @predictors@,
    .measured = @measured_slots@,
    .predicted = @predicted@,
    .counts = @bit_counts@,
    .guards = @guard_place@,
    .guarded = @guarded@,
    .arena_bytes = @P@_ARENA_BYTES,
    .deciding_steps = @deciding@,
    .decision_steps = @decision@};

static const DevSavedForm form = {
    .runs = runs, .count = (int32_t)(sizeof(runs) / sizeof(runs[0])), .bytes = @P@_STATE_BYTES,
    .identity = UINT64_C(@identity@)};

@functions@// Learning rates from a step on, as bits of doubles.
static const DevRate rates[] = {
@rates@};

void @p@_begin(@p@_training* training) {
  training->step = @step@;
  dev_unpack(&form, first_state, training->state.bytes);
  for (int i = 0; i < @exponents@; ++i) training->exponents[i] = -15;
  for (int i = 0; i < @channels@; ++i) training->channel_exponents[i] = 0;
}

bool @p@_step_with_rate(@p@_training* training, @parameters@, uint64_t rate, @p@_result* result) {
  const void* const inputs[] = {@arguments@};
  DevMemory m = {.program = &program,
                 .state = training->state.bytes,
                 .arena = training->arena.bytes,
                 .exponents = training->exponents,
                 .measured = training->measured,
                 .channel_exponents = training->channel_exponents,
                 .violated = training->violated,
                 .counts = training->counts};
  m.step.micro_batches = @micro_batches@;
@needed@  m.step.scalars.learning_rate = ref_real_of_bits(rate);
  m.step.scalars.momentum = ref_real_of_bits(@momentum@);
  m.step.scalars.weight_decay = ref_real_of_bits(@decay@);
  m.step.scalars.beta1 = ref_real_of_bits(@beta1@);
  m.step.scalars.beta2 = ref_real_of_bits(@beta2@);
  m.step.scalars.epsilon = ref_real_of_bits(@epsilon@);
  m.step.scalars.gradient_scale = ref_real_of_bits(@scale@);
  m.step.scalars.statistics_momentum = ref_real_of_bits(@statistics@);
  m.step.scalars.seed = UINT64_C(@seed@);
  m.step.scalars.step = training->step;
  dev_begin_step(&m);
@calls@  result->loss = m.step.loss;
  result->correct = m.step.correct;
  result->examples = m.step.counted;
  result->clipped = m.step.clipped;
  if (!dev_end_step(&m)) return false;
  training->step = m.step.scalars.step;
  return true;
}

bool @p@_step(@p@_training* training, @parameters@, @p@_result* result) {
  const uint64_t rate = dev_rate_at(rates, (int32_t)(sizeof(rates) / sizeof(rates[0])),
                                    training->step);
  return @p@_step_with_rate(training, @names@, rate, result);
}

void @p@_save(const @p@_training* training, uint8_t block[@P@_SAVED_BYTES]) {
  dev_save(&form, training->state.bytes, training->step, block);
}

DevLoaded @p@_load(@p@_training* training, const uint8_t block[@P@_SAVED_BYTES]) {
  return dev_load(&form, block, training->state.bytes, &training->step);
}
)C";

constexpr const char* kTrainingExample =
    R"C(// Trains on batches from the standard input, one after the other, each input of a batch in turn (in
// the byte order of this machine). Prints a line for each step, and writes the state to the file that
// the argument names.
#include <stdio.h>

@header@
int main(int argc, char** argv) {
  static @p@_training training;
  static uint8_t block[@P@_SAVED_BYTES];
@buffers@  @p@_begin(&training);
  while (@reads@) {
    @p@_result result;
    if (!@p@_step(&training, @names@, &result)) {
      printf("diverged\n");
      return 1;
    }
    printf("step %ld  loss %ld  correct %ld of %ld\n", (long)training.step, (long)result.loss,
           (long)result.correct, (long)result.examples);
  }
  if (argc < 2) return 0;
  FILE* file = fopen(argv[1], "wb");
  if (file == NULL) return 1;
  @p@_save(&training, block);
  return fwrite(block, sizeof(block), 1, file) == 1 && fclose(file) == 0 ? 0 : 1;
}
)C";

}  // namespace

std::vector<SourceFile> training_files(const Words& words, const std::vector<std::string>& headers,
                                       const std::string& tables) {
  const std::string& prefix = words.at("p");
  std::string source = with_words("@header@\n", words);
  for (const std::string& header : headers) source += "#include \"" + header + "\"\n";
  source += "\n" + tables + with_words(kTrainingSource, words);
  std::vector<std::string> all = headers;
  all.insert(all.end(),
             {"device/training/program.h", "device/training/saved.h", "device/training/shuffle.h"});
  std::vector<SourceFile> files = sources_of(all);
  files.push_back({prefix + "_training.h", with_words(kTrainingHeader, words)});
  files.push_back({prefix + "_training.c", source});
  files.push_back({"train.c", with_words(kTrainingExample, words)});
  append_build_files(prefix, prefix + "_training", "train", files);
  files.push_back(
      {"export.json",
       with_words("{\"kind\": \"mantissa c training 1\", \"prefix\": \"@p@\"}\n", words)});
  return files;
}

}  // namespace mantissa::device

// The scalar rows of all families but convolution, of plain C: the functions of src/reference.
#include "kernels/attention/attention.h"
#include "kernels/batch_norm/batch_norm.h"
#include "kernels/bit_counts/bit_counts.h"
#include "kernels/blocks/blocks.h"
#include "kernels/common/c_row.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/pooling/pooling.h"
#include "kernels/recurrent/gate_tables.h"
#include "kernels/rescale/rescale.h"
#include "kernels/rounding/rounding.h"
#include "kernels/row_norms/row_norms.h"
#include "kernels/row_products/row_products.h"
#include "kernels/softmax/softmax.h"
#include "kernels/squared_error/squared_error.h"
#include "kernels/update/update.h"
#include "kernels/wide/wide.h"

namespace mantissa::kernels {

const ElementwiseKernels kElementwiseReference = {
    .name = "elementwise_reference",
    .needs = kNeedsNothing,
    .requantise = c_row<ref_requantise>,
    .normalise_input = c_row<ref_normalise_input>,
    .add = c_row<ref_add>,
    .add_wide = c_row<ref_add_wide>,
    .relu = ref_relu,
    .relu_gradient = ref_relu_gradient,
    .sum_rows = ref_sum_rows,
    .sum_magnitudes = ref_sum_magnitudes,
    .channel_maxima = ref_channel_maxima,
    .requantise_channels = c_row<ref_requantise_channels>,
    .count_values = ref_count_values,
    .look_up = ref_look_up,
    .clamp = ref_clamp_values,
    .within = ref_within,
    .extremes = ref_extremes,
    .multiply = c_row<ref_multiply>,
    .scale_gradient = c_row<ref_scale_gradient>,
    .sum_products = ref_sum_products,
    .scale_within = c_row<ref_scale_within>,
    .sum_by_table = ref_sum_by_table,
    .shift_channels = c_row<ref_shift_channels>};

const RoundingKernels kRoundingReference = {.name = "rounding_reference",
                                            .needs = kNeedsNothing,
                                            .round = c_row<ref_round_stochastically>,
                                            .round_to_nearest = c_row<ref_round_to_nearest>,
                                            .maximum = ref_maximum,
                                            .keep_mask = c_row<ref_keep_mask>};

static_assert(kFinerExponents == REF_FINER_EXPONENTS);
const BitCountKernels kBitCountsReference = {
    .name = "bit_counts_reference",
    .needs = kNeedsNothing,
    .count_large = [](ConstMantissaSpan mantissas, int64_t begin, int64_t end,
                      LargeCounts& large) noexcept {
      ref_count_large(mantissas, begin, end, large.data());
    }};

const SquaredErrorKernels kSquaredErrorReference = {.name = "squared_error_reference",
                                                    .needs = kNeedsNothing,
                                                    .loss = c_row<ref_squared_error_loss>,
                                                    .gradient = c_row<ref_squared_error_gradient>};

const SoftmaxKernels kSoftmaxReference = {
    .name = "softmax_reference",
    .needs = kNeedsNothing,
    .loss = c_row<ref_softmax_loss>,
    .gradient = c_row<ref_softmax_gradient>,
    .probabilities = c_row<ref_softmax_probabilities>,
    .sigmoid_loss = c_row<ref_sigmoid_loss>,
    .sigmoid_gradient = c_row<ref_sigmoid_gradient>,
    .sigmoid_probabilities = c_row<ref_sigmoid_probabilities>};

const WideKernels kWideReference = {.name = "wide_reference",
                                    .needs = kNeedsNothing,
                                    .narrow = c_row<ref_narrow_wide>,
                                    .add_shifted = c_row<ref_add_shifted>,
                                    .plane = c_row<ref_plane>,
                                    .group_sums = c_row<ref_group_sums>,
                                    .add = ref_add_sums,
                                    .first_sums = c_row<ref_first_sums>,
                                    .channel_products = c_row<ref_channel_products>,
                                    .rescale = c_row<ref_rescale>,
                                    .shift_sums = c_row<ref_shift_sums>,
                                    .products = c_row<ref_products>,
                                    .gelu = c_row<ref_gelu>,
                                    .silu = c_row<ref_silu>,
                                    .silu_gradient = c_row<ref_silu_gradient>};

const RescaleKernels kRescaleReference = {
    .name = "rescale_reference", .needs = kNeedsNothing, .rescale = c_row<ref_rescale_rows>};

const BlockKernels kBlocksReference = {
    .name = "blocks_reference", .needs = kNeedsNothing, .expand = c_row<ref_expand_blocks>};

const PoolingKernels kPoolingReference = {
    .name = "pooling_reference",
    .needs = kNeedsNothing,
    .max_pool = c_row<ref_max_pool>,
    .max_pool_gradient = c_row<ref_max_pool_gradient>,
    .max_pool_windows = c_row<ref_max_pool_windows>,
    .max_pool_windows_gradient = c_row<ref_max_pool_windows_gradient>,
    .average_pool = c_row<ref_average_pool>,
    .average_pool_gradient = c_row<ref_average_pool_gradient>,
    .image_sums = ref_image_sums,
    .broadcast = ref_broadcast};

const BatchNormKernels kBatchNormReference = {.name = "batch_norm_reference",
                                              .needs = kNeedsNothing,
                                              .channel_sums = c_row<ref_channel_sums>,
                                              .scale_offset = c_row<ref_scale_offset>,
                                              .gradient_sums = c_row<ref_batch_norm_gradient_sums>,
                                              .gradient = c_row<ref_batch_norm_gradient>};

const RowNormKernels kRowNormsReference = {.name = "row_norms_reference",
                                           .needs = kNeedsNothing,
                                           .sums = ref_row_sums,
                                           .normalise = c_row<ref_normalise_row>,
                                           .scale = ref_scale_row,
                                           .gradient = c_row<ref_row_norm_gradient>,
                                           .add_gradients = ref_add_row_gradients};

const RowProductKernels kRowProductsReference = {.name = "row_products_reference",
                                                 .needs = kNeedsNothing,
                                                 .multiply = c_row<ref_row_products>};

const AttentionKernels kAttentionReference = {
    .name = "attention_reference",
    .needs = kNeedsNothing,
    .align = c_row<ref_align_keys>,
    .forward = [](const AttentionHead& head, std::byte* room, int64_t* out,
                  int64_t stride) noexcept { ref_attention_forward(&head, room, out, stride); },
    .backward =
        [](const AttentionHead& head, std::byte* room, const AttentionGradient& gradient) noexcept {
          ref_attention_backward(&head, room, &gradient);
        }};

namespace {

template <auto kForward, auto kBackward>
constexpr CellKernels kCell = {
    .forward =
        [](const CellStep& step) noexcept {
          const RefGates gates = {sigmoid_table().at_zero(), tanh_table().at_zero()};
          return kForward(&gates, &step);
        },
    .backward =
        [](const CellGradient& gradient) noexcept {
          const RefGates gates = {sigmoid_table().at_zero(), tanh_table().at_zero()};
          kBackward(&gates, &gradient);
        }};

}  // namespace

const RecurrentKernels kRecurrentReference = {.name = "recurrent_reference",
                                              .needs = kNeedsNothing,
                                              .products = c_row<ref_pair_products>,
                                              .rnn = kCell<ref_rnn_forward, ref_rnn_backward>,
                                              .lstm = kCell<ref_lstm_forward, ref_lstm_backward>,
                                              .gru = kCell<ref_gru_forward, ref_gru_backward>,
                                              .add_output_gradient = ref_add_output_gradient,
                                              .add_carry = ref_add_carry,
                                              .shorten = ref_shorten,
                                              .pair_gradients = ref_pair_gradients,
                                              .pair_states = ref_pair_states,
                                              .largest_gradient = ref_largest_gradient,
                                              .largest_state = ref_largest_state};

const UpdateKernels kUpdateReference = {.name = "update_reference",
                                        .needs = kNeedsNothing,
                                        .gradient_extremes = c_row<ref_gradient_extremes>,
                                        .sketch_extremes = c_row<ref_sketch_extremes>,
                                        .direction_extremes = c_row<ref_direction_extremes>,
                                        .count_directions = c_row<ref_count_directions>,
                                        .step = c_row<ref_update_step>,
                                        .change_unit = c_row<ref_change_unit>,
                                        .look_ahead = c_row<ref_look_ahead>,
                                        .adam_extremes = c_row<ref_adam_extremes>,
                                        .adam_direction = c_row<ref_adam_direction>,
                                        .adam_direction_in_integers = c_row<ref_adam_direction>,
                                        .sum_of_squares = c_row<ref_sum_of_squares>};

}  // namespace mantissa::kernels

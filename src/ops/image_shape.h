// Sequences [T, C] in operators of images: an image of one row, whose width are the positions.
#pragma once

#include "tensor/tensor.h"

namespace mantissa::ops {

// Of one example: [H, W, C] or [T, C].
inline bool is_image_or_sequence(const Shape& shape) { return shape.rank == 3 || shape.rank == 2; }
inline bool is_sequence(const Shape& shape) { return shape.rank == 2; }
inline Shape as_image(const Shape& shape) {
  return is_sequence(shape) ? Shape{1, shape[0], shape[1]} : shape;
}

// The same with the micro-batch in front.
inline bool are_sequences(const Shape& shapes) { return shapes.rank == 3; }
inline Shape as_images(const Shape& shapes) {
  return are_sequences(shapes) ? Shape{shapes[0], 1, shapes[1], shapes[2]} : shapes;
}

// Back, for a result of as_image(input).
inline Shape like_input(const Shape& image, const Shape& input) {
  return is_sequence(input) ? Shape{image[1], image[2]} : image;
}

}  // namespace mantissa::ops

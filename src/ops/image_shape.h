// Sequences [T, C] and volumes [D, H, W, C] in operators of images. A sequence is an image of one
// row, whose width are the positions. A volume, or a video, is D images.
#pragma once

#include "tensor/tensor.h"

namespace mantissa::ops {

// Of one example: [H, W, C], [T, C] or [D, H, W, C].
inline bool is_of_images(const Shape& shape) { return shape.rank >= 2 && shape.rank <= 4; }
inline bool is_sequence(const Shape& shape) { return shape.rank == 2; }
inline bool is_volume(const Shape& shape) { return shape.rank == 4; }
// One image of the example.
inline Shape as_image(const Shape& shape) {
  if (is_volume(shape)) return {shape[1], shape[2], shape[3]};
  return is_sequence(shape) ? Shape{1, shape[0], shape[1]} : shape;
}

// The same with the micro-batch in front: all images.
inline bool are_sequences(const Shape& shapes) { return shapes.rank == 3; }
inline bool are_volumes(const Shape& shapes) { return shapes.rank == 5; }
inline Shape as_images(const Shape& shapes) {
  if (are_volumes(shapes)) return {shapes[0] * shapes[1], shapes[2], shapes[3], shapes[4]};
  return are_sequences(shapes) ? Shape{shapes[0], 1, shapes[1], shapes[2]} : shapes;
}

// Back, for a result of as_image(input).
inline Shape like_input(const Shape& image, const Shape& input) {
  if (is_volume(input)) return image.with_front(input[0]);
  return is_sequence(input) ? Shape{image[1], image[2]} : image;
}

// All positions of an example, [..., C] with the micro-batch in front.
inline int64_t positions_of_example(const Shape& shapes) {
  return shapes.count() / shapes[0] / shapes.last();
}

}  // namespace mantissa::ops

// Decoded pictures in device memory into the inputs of a model: all items of a batch in one launch.
//
// A picture is NV12 with a pitch: luma, then pairs of chroma at half its sides. An item is a region of one, scaled or letterboxed
// (mode 0) or under a projective map (mode 1), converted to red, green and blue or to luma, normalised, and written as planes of
// floats. The arithmetic is that of pixels/ on the CPU, in the same order; what is the same for all pixels of an item is
// computed there and stands in it (pixels/device.rs has the same structure).
//
// The text is C as well as CUDA C++, without headers: NVRTC compiles it for a device, and a test compiles it for the CPU.

#ifdef __cplusplus
extern "C" {
#endif

// One direction of one plane: sample = start + (output + 0.5) * step, in cells of `factor` samples that begin at `base`.
typedef struct {
    double start;
    double step;
    int base;
    int factor;
    int cells;
    int size;
} Axis;

typedef struct {
    unsigned long long luma;
    unsigned long long chroma;
    double map[9];
    Axis luma_x, luma_y, chroma_x, chroma_y;
    int luma_pitch, chroma_pitch;
    int width, height;
    int mode;
    int grid;
    // Outputs within the picture, of mode 0.
    int first_column, end_column, first_row, end_row;
    // Red, green, blue of the planes written; luma alone where there is one.
    int channels;
    int order[3];
    // Colours: gain, red by V, green by U, green by V, blue by U.
    float convert[5];
    float bias[3];
    float luma_bias;
    float mean[3], scale[3];
    float fill;
} Item;

typedef struct {
    int at, next;
    float weight;
} Tap;

__device__ static float limit(float value) {
    return value < 0.0f ? 0.0f : (value > 255.0f ? 255.0f : value);
}

__device__ static Tap tap(const Axis *axis, int output) {
    Tap tap;
    double cell = (axis->start + ((double)output + 0.5) * axis->step - (double)axis->base) / (double)axis->factor - 0.5;
    double last = (double)(axis->cells - 1);
    cell = cell < 0.0 ? 0.0 : (cell > last ? last : cell);
    tap.at = (int)cell;
    tap.next = tap.at + 1 < axis->cells ? tap.at + 1 : axis->cells - 1;
    tap.weight = (float)(cell - (double)tap.at);
    return tap;
}

// The mean of the samples of a cell; `step` bytes from one to the next.
__device__ static float cell(const unsigned char *samples, int pitch, int step, const Axis *x, const Axis *y, int column,
                             int row) {
    int left = x->base + column * x->factor, top = y->base + row * y->factor;
    int right = left + x->factor < x->size ? left + x->factor : x->size;
    int bottom = top + y->factor < y->size ? top + y->factor : y->size;
    unsigned int total = 0;
    int line, at;
    if (x->factor == 1 && y->factor == 1) {
        return (float)samples[(long long)top * pitch + (long long)left * step];
    }
    for (line = top; line < bottom; line++) {
        for (at = left; at < right; at++) {
            total += samples[(long long)line * pitch + (long long)at * step];
        }
    }
    return (float)total * (1.0f / (float)((right - left) * (bottom - top)));
}

// Rows are blended first, then columns.
__device__ static float scaled(const unsigned char *samples, int pitch, int step, const Axis *x, const Axis *y, Tap across,
                               Tap down) {
    float left = cell(samples, pitch, step, x, y, across.at, down.at);
    float right = cell(samples, pitch, step, x, y, across.next, down.at);
    if (down.weight != 0.0f && down.next != down.at) {
        left = left + (cell(samples, pitch, step, x, y, across.at, down.next) - left) * down.weight;
        right = right + (cell(samples, pitch, step, x, y, across.next, down.next) - right) * down.weight;
    }
    return left + (right - left) * across.weight;
}

// Bilinear between the samples around a point of a plane of `width` by `height`.
__device__ static float point(const unsigned char *samples, int pitch, int step, int width, int height, float x, float y) {
    float last_x = (float)(width - 1), last_y = (float)(height - 1);
    int left, right, top, bottom;
    float a, b, above, below;
    x = x - 0.5f;
    y = y - 0.5f;
    x = x < 0.0f ? 0.0f : (x > last_x ? last_x : x);
    y = y < 0.0f ? 0.0f : (y > last_y ? last_y : y);
    left = (int)x;
    top = (int)y;
    right = left + 1 < width ? left + 1 : width - 1;
    bottom = top + 1 < height ? top + 1 : height - 1;
    x = x - (float)left;
    y = y - (float)top;
    a = (float)samples[(long long)top * pitch + (long long)left * step];
    b = (float)samples[(long long)top * pitch + (long long)right * step];
    above = a + (b - a) * x;
    a = (float)samples[(long long)bottom * pitch + (long long)left * step];
    b = (float)samples[(long long)bottom * pitch + (long long)right * step];
    below = a + (b - a) * x;
    return above + (below - above) * y;
}

__device__ static void colour(const Item *item, float y, float u, float v, float *out) {
    y = item->convert[0] * y;
    out[0] = limit(y + item->convert[1] * v + item->bias[0]);
    out[1] = limit(y + item->convert[2] * u + item->convert[3] * v + item->bias[1]);
    out[2] = limit(y + item->convert[4] * u + item->bias[2]);
}

__device__ static void warped(const Item *item, int column, int row, float *out) {
    const unsigned char *luma = (const unsigned char *)item->luma, *chroma = (const unsigned char *)item->chroma;
    const Axis *lx = &item->luma_x, *ly = &item->luma_y, *cx = &item->chroma_x, *cy = &item->chroma_y;
    int index, channel, points = item->grid * item->grid;
    float total[3] = {0.0f, 0.0f, 0.0f};
    for (index = 0; index < points; index++) {
        double x = (double)column + ((double)(index % item->grid) + 0.5) / (double)item->grid;
        double y = (double)row + ((double)(index / item->grid) + 0.5) / (double)item->grid;
        double w = item->map[6] * x + item->map[7] * y + item->map[8];
        double at_x = (item->map[0] * x + item->map[1] * y + item->map[2]) / w;
        double at_y = (item->map[3] * x + item->map[4] * y + item->map[5]) / w;
        float value[3] = {item->fill, item->fill, item->fill};
        if (at_x >= 0.0 && at_x < (double)lx->size && at_y >= 0.0 && at_y < (double)ly->size) {
            float px = (float)at_x, py = (float)at_y;
            float brightness = point(luma, item->luma_pitch, 1, lx->size, ly->size, px, py);
            if (item->channels == 1) {
                value[0] = limit(item->convert[0] * brightness + item->luma_bias);
            } else {
                float u = point(chroma, item->chroma_pitch, 2, cx->size, cy->size, px * 0.5f, py * 0.5f);
                float v = point(chroma + 1, item->chroma_pitch, 2, cx->size, cy->size, px * 0.5f, py * 0.5f);
                colour(item, brightness, u, v, value);
            }
        }
        for (channel = 0; channel < 3; channel++) {
            total[channel] += value[channel];
        }
    }
    for (channel = 0; channel < 3; channel++) {
        out[channel] = total[channel] / (float)points;
    }
}

// A thread a pixel of the input, a layer of blocks an item. Items have the same width, height and channels.
__global__ void preprocess(const Item *items, int count, float *out) {
    int column = (int)(blockIdx.x * blockDim.x + threadIdx.x);
    int row = (int)(blockIdx.y * blockDim.y + threadIdx.y);
    int number = (int)blockIdx.z, channel;
    const Item *item = items + number;
    float value[3];
    if (number >= count || column >= item->width || row >= item->height) {
        return;
    }
    value[0] = value[1] = value[2] = item->fill;
    if (item->mode == 1) {
        warped(item, column, row, value);
    } else if (column >= item->first_column && column < item->end_column && row >= item->first_row && row < item->end_row) {
        const unsigned char *luma = (const unsigned char *)item->luma, *chroma = (const unsigned char *)item->chroma;
        float y = scaled(luma, item->luma_pitch, 1, &item->luma_x, &item->luma_y, tap(&item->luma_x, column),
                         tap(&item->luma_y, row));
        if (item->channels == 1) {
            value[0] = limit(item->convert[0] * y + item->luma_bias);
        } else {
            Tap across = tap(&item->chroma_x, column), down = tap(&item->chroma_y, row);
            float u = scaled(chroma, item->chroma_pitch, 2, &item->chroma_x, &item->chroma_y, across, down);
            float v = scaled(chroma + 1, item->chroma_pitch, 2, &item->chroma_x, &item->chroma_y, across, down);
            colour(item, y, u, v, value);
        }
    }
    for (channel = 0; channel < item->channels; channel++) {
        long long plane = (long long)number * item->channels + channel;
        long long at = (plane * item->height + row) * item->width + column;
        out[at] = (value[item->order[channel]] - item->mean[channel]) * item->scale[channel];
    }
}

#ifdef __cplusplus
}
#endif

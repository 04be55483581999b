/* Rotary embedding (Su et al. 2021): angle of pair i at position p is p * theta^(-2i/E), scaled as the config says. */
#include <math.h>

#include "model/model.h"

/* llama3 (transformers modeling_rope_utils.py, _compute_llama3_parameters): long waves are stretched by `factor`, short ones kept, between them a blend. */
static double llama3_frequency(const rope_shape *rope, double frequency)
{
    double original = (double)rope->original_max_positions, wave = 2.0 * M_PI / frequency;
    if (wave < original / rope->high_freq_factor) return frequency;
    if (wave > original / rope->low_freq_factor) return frequency / rope->factor;
    double smooth = (original / wave - rope->low_freq_factor) / (rope->high_freq_factor - rope->low_freq_factor);
    return (1.0 - smooth) * frequency / rope->factor + smooth * frequency;
}

qlft_status rope_frequencies(float *out, const model *m)
{
    const rope_shape *rope = &m->dims.rope;
    int half = m->dims.head_size / 2;
    if (rope->kind == ROPE_FACTORS) QLFT_TRY(source_rope_factors(out, &m->source, half));
    for (int i = 0; i < half; i++) {
        double frequency = pow(rope->theta, -2.0 * i / m->dims.head_size);
        switch (rope->kind) {
        case ROPE_DEFAULT: break;
        case ROPE_LINEAR: frequency /= rope->factor; break;
        case ROPE_LLAMA3: frequency = llama3_frequency(rope, frequency); break;
        case ROPE_FACTORS: frequency /= (double)out[i]; break;
        }
        if (!isfinite(frequency)) return status_fail(QLFT_EFORMAT, "%s: rotary frequency %d is not a number", m->source.path, i);
        out[i] = (float)frequency;
    }
    return QLFT_OK;
}

/* The angle is a product of floats, as in transformers, so that long positions round as in the models' training. */
void rope_tables(const model *m, tensor cosine, tensor sine, const int32_t *positions, int64_t count)
{
    int half = m->dims.head_size / 2;
#pragma omp parallel for num_threads(m->dev->threads)
    for (int64_t i = 0; i < count; i++) {
        float *c = (float *)cosine.data + i * cosine.stride, *s = (float *)sine.data + i * sine.stride;
        for (int j = 0; j < half; j++) {
            float angle = (float)positions[i] * m->inverse_frequency[j];
            c[j] = (float)cos((double)angle);
            s[j] = (float)sin((double)angle);
        }
    }
}

"""Random blocks of every GGUF tensor type that qlft reads, and their values as the `gguf` package dequantizes them.

    pip install gguf safetensors numpy
    python make_gguf.py FOLDER     writes blocks.safetensors, small.gguf (the same blocks) and adapter.gguf (for the writer)
"""

import sys

import numpy
from gguf import GGMLQuantizationType as Type
from gguf import GGML_QUANT_SIZES, GGUFWriter
from gguf.quants import dequantize
from safetensors.numpy import save_file

NAMES = ["F32", "F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q4_K", "Q5_K", "Q6_K"]
# Byte offsets of the F16 scales inside a block.
SCALES = {"Q8_0": [0], "Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208]}


def blocks_of(name, random):
    """Three blocks (64 values of the unquantized types): any codes, and finite scales from subnormal to large."""
    size, bytes_ = GGML_QUANT_SIZES[Type[name]]
    count = 3 if size > 1 else 64
    if name == "F32":
        return random.normal(size=count).astype(numpy.float32).view(numpy.uint8).reshape(1, -1)
    if name == "F16":
        halves = random.integers(0, 1 << 16, count).astype(numpy.uint16)
        halves[(halves & 0x7C00) == 0x7C00] &= 0x83FF
        return halves.view(numpy.uint8).reshape(1, -1)
    if name == "BF16":
        return (random.normal(size=count).astype(numpy.float32).view(numpy.uint32) >> 16).astype(numpy.uint16).view(numpy.uint8).reshape(1, -1)
    raw = random.integers(0, 256, (count, bytes_)).astype(numpy.uint8)
    for at in SCALES[name]:
        scales = random.normal(size=count) * numpy.array([1e-6, 0.02, 3.0])
        raw[:, at : at + 2] = scales.astype(numpy.float16).view(numpy.uint8).reshape(count, 2)
    return raw.reshape(1, -1)


def write_adapter(path):
    """What core/gguf_write.c must write byte for byte for the same values: a[i] = i / 4, b[i] = -i, c[i] = i."""
    writer = GGUFWriter(path, "llama")
    writer.add_string("general.type", "adapter")
    writer.add_string("adapter.type", "lora")
    writer.add_float32("adapter.lora.alpha", 0.1)
    writer.add_uint32("llama.block_count", 4000000000)
    writer.add_tensor("blk.0.attn_q.weight.lora_a", (numpy.arange(32) / 4).astype(numpy.float32).reshape(4, 8))
    writer.add_tensor("blk.0.attn_q.weight.lora_b", (-numpy.arange(6)).astype(numpy.float16).reshape(2, 3))
    c = (numpy.arange(24).astype(numpy.float32).view(numpy.uint32) >> 16).astype(numpy.uint16)
    writer.add_tensor("c", c.reshape(2, 3, 4).view(numpy.uint8), raw_dtype=Type.BF16)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def main(folder):
    random = numpy.random.default_rng(20261201)
    tensors = {}
    writer = GGUFWriter(f"{folder}/small.gguf", "llama")
    writer.add_uint32("test.u32", 4000000000)
    writer.add_int16("test.i16", -5)
    writer.add_uint64("test.u64", 1 << 40)
    writer.add_float32("test.f32", 0.1)
    writer.add_float64("test.f64", 0.1)
    writer.add_bool("test.bool", True)
    writer.add_string("test.string", "grüß\u0000e")
    writer.add_array("test.strings", ["a", "", "ccc"])
    writer.add_array("test.ints", [1, -2, 3])
    for name in NAMES:
        raw = blocks_of(name, random)
        tensors[f"{name}.raw"] = raw.reshape(-1)
        tensors[f"{name}.f32"] = dequantize(raw, Type[name]).reshape(-1).astype(numpy.float32)
        writer.add_tensor(f"t.{name}", raw.reshape(1, -1), raw_dtype=Type[name])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    save_file(tensors, f"{folder}/blocks.safetensors")
    write_adapter(f"{folder}/adapter.gguf")


main(sys.argv[1])

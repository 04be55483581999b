#include "data/tokenizer_spm.h"

#include <cstdio>
#include <exception>
#include <sentencepiece_processor.h>

struct spm {
    sentencepiece::SentencePieceProcessor processor;
};

static void say(char *message, size_t message_bytes, const char *text)
{
    if (message_bytes) std::snprintf(message, message_bytes, "%s", text);
}

spm *spm_open(const void *model, size_t bytes, char *message, size_t message_bytes)
{
    spm *s = nullptr;
    try {
        s = new spm;
        const auto status = s->processor.LoadFromSerializedProto(absl::string_view(static_cast<const char *>(model), bytes));
        if (status.ok()) return s;
        say(message, message_bytes, status.error_message());
    } catch (const std::exception &failure) {
        say(message, message_bytes, failure.what());
    }
    delete s;
    return nullptr;
}

void spm_close(spm *s)
{
    delete s;
}

int32_t spm_size(const spm *s)
{
    return s->processor.GetPieceSize();
}

const char *spm_piece(const spm *s, int32_t id, size_t *bytes)
{
    const std::string &text = s->processor.IdToPiece(id);
    *bytes = text.size();
    return text.c_str();
}

bool spm_is_control(const spm *s, int32_t id)
{
    return s->processor.IsControl(id);
}

bool spm_is_unknown(const spm *s, int32_t id)
{
    return s->processor.IsUnknown(id);
}

bool spm_is_byte(const spm *s, int32_t id)
{
    return s->processor.IsByte(id);
}

int32_t spm_bos(const spm *s)
{
    return s->processor.bos_id();
}

int32_t spm_eos(const spm *s)
{
    return s->processor.eos_id();
}

int32_t spm_unknown(const spm *s)
{
    return s->processor.unk_id();
}

bool spm_encode(const spm *s, const char *text, size_t bytes, spm_piece_fn each, void *payload, char *message, size_t message_bytes)
{
    try {
        sentencepiece::ImmutableSentencePieceText pieces;
        const auto status = s->processor.Encode(absl::string_view(text, bytes), pieces.mutable_proto());
        if (!status.ok()) {
            say(message, message_bytes, status.error_message());
            return false;
        }
        const int count = static_cast<int>(pieces.pieces_size());
        for (int i = 0; i < count; i++) {
            const auto piece = pieces.pieces(i);
            each(payload, static_cast<int32_t>(piece.id()), piece.begin(), piece.end());
        }
        return true;
    } catch (const std::exception &failure) {
        say(message, message_bytes, failure.what());
        return false;
    }
}

/* The limit: what one thread of C needs to read logs of magic 2, check every CRC-32C and, with
 * --deep, decode every record: of batches that are not compressed and, made WITH_CODECS, of those
 * with lz4 and zstd. No row is kept, nothing is explained, and the first fault of a file ends it.
 *
 *     limit [--deep] PATH...      files, or directories with *.log below them
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <ftw.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#ifdef WITH_CODECS
#include <lz4frame.h>
#include <zstd.h>
#endif

static int deep;
static uint8_t *buffer;
static size_t room;
static uint64_t files, batches, records, bad;
static volatile uint64_t sum; /* so that no decoding is left out */

static uint16_t be16(const uint8_t *p) { uint16_t v; memcpy(&v, p, 2); return __builtin_bswap16(v); }
static uint32_t be32(const uint8_t *p) { uint32_t v; memcpy(&v, p, 4); return __builtin_bswap32(v); }

#if defined(__x86_64__)
#define STEP(crc, word) ((uint32_t)__builtin_ia32_crc32di((crc), (word)))
#define STEP_1(crc, byte) __builtin_ia32_crc32qi((crc), (byte))
#define TARGET __attribute__((target("sse4.2")))
#elif defined(__aarch64__)
#define STEP(crc, word) __builtin_aarch64_crc32cx((crc), (word))
#define STEP_1(crc, byte) __builtin_aarch64_crc32cb((crc), (byte))
#define TARGET __attribute__((target("+crc")))
#else
#error "CRC-32C in hardware is needed"
#endif

TARGET static uint32_t crc32c(const uint8_t *p, size_t n)
{
    uint32_t crc = ~0u;
    for (; n >= 8; n -= 8, p += 8) {
        uint64_t word;
        memcpy(&word, p, 8);
        crc = STEP(crc, word);
    }
    while (n--)
        crc = STEP_1(crc, *p++);
    return ~crc;
}

static const uint8_t *varint(const uint8_t *p, const uint8_t *end, int64_t *value)
{
    uint64_t v = 0;
    for (int shift = 0; p < end && shift < 70; shift += 7) {
        uint8_t byte = *p++;
        v |= (uint64_t)(byte & 0x7f) << (shift & 63);
        if (byte < 0x80) {
            *value = (int64_t)(v >> 1) ^ -(int64_t)(v & 1);
            return p;
        }
    }
    return NULL;
}

/* A length and so many bytes; -1 is null. */
static const uint8_t *bytes(const uint8_t *p, const uint8_t *end)
{
    int64_t length;
    if (!(p = varint(p, end, &length)) || length > end - p)
        return NULL;
    sum += length;
    return length > 0 ? p + length : p;
}

static const uint8_t *record(const uint8_t *p, const uint8_t *end)
{
    int64_t length, delta, n_headers;
    if (!(p = varint(p, end, &length)) || length < 1 || length > end - p)
        return NULL;
    const uint8_t *stop = p + length;
    if (!(p = varint(p + 1, stop, &delta)))
        return NULL;
    sum += delta;
    if (!(p = varint(p, stop, &delta)))
        return NULL;
    sum += delta;
    if (!(p = bytes(p, stop)) || !(p = bytes(p, stop)) || !(p = varint(p, stop, &n_headers)))
        return NULL;
    while (n_headers-- > 0)
        if (!(p = bytes(p, stop)) || !(p = bytes(p, stop)))
            return NULL;
    return p == stop ? p : NULL;
}

/* The records of a batch: where they begin and end, decompressed where that is known; 0 where not. */
#ifdef WITH_CODECS
static int plain(int codec, const uint8_t **from, const uint8_t **to)
{
    static uint8_t *made;
    static size_t space = 1 << 20;
    static LZ4F_dctx *lz4;
    static ZSTD_DCtx *zstd;
    if (!made) {
        made = malloc(space);
        LZ4F_createDecompressionContext(&lz4, LZ4F_VERSION);
        zstd = ZSTD_createDCtx();
    }
    for (;;) {
        size_t size = 0, left = *to - *from;
        int full = 0;
        if (codec == 3) {
            const uint8_t *p = *from;
            LZ4F_resetDecompressionContext(lz4);
            while (left && !full) {
                size_t out = space - size, in = left;
                size_t more = LZ4F_decompress(lz4, made + size, &out, p, &in, NULL);
                if (LZ4F_isError(more))
                    return 0;
                size += out, p += in, left -= in;
                full = size == space && more;
            }
        } else if (codec == 4) {
            ZSTD_inBuffer in = {*from, left, 0};
            ZSTD_outBuffer out = {made, space, 0};
            ZSTD_DCtx_reset(zstd, ZSTD_reset_session_only);
            while (in.pos < in.size && out.pos < out.size)
                if (ZSTD_isError(ZSTD_decompressStream(zstd, &out, &in)))
                    return 0;
            size = out.pos;
            full = size == space;
        }
        if (!full) {
            *from = made, *to = made + size;
            return size > 0;
        }
        made = realloc(made, space *= 2);
    }
}
#endif

static int batch(const uint8_t *p, size_t size)
{
    if (p[16] != 2 || crc32c(p + 21, size - 21) != be32(p + 17))
        return 0;
    uint32_t n = be32(p + 57);
    int codec = be16(p + 21) & 7;
    const uint8_t *end = p + size;
    records += n;
    p += 61;
    if (!deep)
        return 1;
#ifdef WITH_CODECS
    if (codec >= 3 && !plain(codec, &p, &end))
        return 0;
    if (codec == 1 || codec == 2)
        return 1;
#else
    if (codec)
        return 1;
#endif
    while (n--)
        if (!(p = record(p, end)))
            return 0;
    return p == end;
}

/* Read in blocks that stay in the processor's cache; the rest of a batch goes to the front. */
static void file(const char *path)
{
    int fd = open(path, O_RDONLY);
    if (fd < 0) {
        perror(path);
        exit(2);
    }
    size_t held = 0, wanted = 61;
    for (files++;;) {
        if (wanted > room)
            buffer = realloc(buffer, room = wanted);
        ssize_t got = read(fd, buffer + held, room - held);
        held += got > 0 ? got : 0;
        size_t at = 0;
        for (wanted = 61; held - at >= 61;) {
            uint32_t size = be32(buffer + at + 8) + 12;
            if (size < 61 || size > 1u << 30) {
                bad++, close(fd);
                return;
            }
            if (held - at < size) {
                wanted = size;
                break;
            }
            bad += !batch(buffer + at, size);
            batches++;
            at += size;
        }
        memmove(buffer, buffer + at, held -= at);
        if (got <= 0)
            break;
    }
    bad += held > 0;
    close(fd);
}

static int visit(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st, (void)ftw;
    size_t n = strlen(path);
    if (type == FTW_F && n > 4 && !strcmp(path + n - 4, ".log"))
        file(path);
    return 0;
}

int main(int n, char **argument)
{
    buffer = malloc(room = 1 << 18);
    for (int i = 1; i < n; i++) {
        if (!strcmp(argument[i], "--deep"))
            deep = 1;
        else if (nftw(argument[i], visit, 64, FTW_PHYS))
            return 2;
    }
    printf("%lu files, %lu batches, %lu records, %lu bad\n", (unsigned long)files,
           (unsigned long)batches, (unsigned long)records, (unsigned long)bad);
    return bad != 0;
}

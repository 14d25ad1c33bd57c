/* sum: reads standard input and prints its CRC-32, its lines, words and bytes, the entropy of its
 * bytes in thousandths of a bit, and its base64 form in lines of 76. `sum -d` decodes base64. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef CRC_TABLE
#define CRC_TABLE 256
#endif

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

#if CRC_TABLE > 0
static uint32_t crc_table[CRC_TABLE];

static void make_crc_table(void) {
  for (uint32_t i = 0; i < CRC_TABLE; i++) {
    uint32_t c = i;
    for (int bit = 1; bit < CRC_TABLE; bit *= 2) c = (c >> 1) ^ (c & 1 ? 0xedb88320u : 0);
    crc_table[i] = c;
  }
}
#endif

static uint32_t crc_of(const unsigned char* data, size_t n) {
  uint32_t crc = 0xffffffffu;
  for (size_t i = 0; i < n; i++) {
    crc ^= data[i];
#if CRC_TABLE == 256
    crc = (crc >> 8) ^ crc_table[crc & 255];
#elif CRC_TABLE == 16
    crc = (crc >> 4) ^ crc_table[crc & 15];
    crc = (crc >> 4) ^ crc_table[crc & 15];
#else
    for (int bit = 0; bit < 8; bit++) crc = (crc >> 1) ^ (crc & 1 ? 0xedb88320u : 0);
#endif
  }
  return ~crc;
}

static unsigned char* read_all(FILE* in, size_t* n) {
  size_t room = 4096;
  unsigned char* data = malloc(room);
  *n = 0;
  while (data != NULL) {
    const size_t got = fread(data + *n, 1, room - *n, in);
    if (got == 0) return data;
    *n += got;
    if (*n == room) {
      room *= 2;
      data = realloc(data, room);
    }
  }
  fputs("sum: no memory\n", stderr);
  exit(1);
}

/* log2(x) in thousandths, x ≥ 1, by repeated squaring: no libm for one figure */
static long log2_of(double x) {
  long result = 0;
  while (x >= 2) {
    x /= 2;
    result += 1 << 12;
  }
  for (long bit = 1 << 11; bit > 0; bit /= 2) {
    x *= x;
    if (x >= 2) {
      x /= 2;
      result += bit;
    }
  }
  return result * 1000 >> 12;
}

static long entropy_of(const unsigned char* data, size_t n) {
  size_t count[256] = {0};
  double sum = 0;
  for (size_t i = 0; i < n; i++) count[data[i]]++;
  for (int i = 0; i < 256; i++)
    if (count[i] > 0) sum += (double)count[i] * (double)log2_of((double)n / (double)count[i]);
  return n > 0 ? (long)(sum / (double)n) : 0;
}

static void print_counts(const unsigned char* data, size_t n) {
  unsigned long lines = 0, words = 0;
  int inside = 0;
  for (size_t i = 0; i < n; i++) {
    const int space = data[i] == ' ' || (data[i] >= '\t' && data[i] <= '\r');
    lines += data[i] == '\n';
    words += !space && !inside;
    inside = !space;
  }
  printf("lines %lu words %lu bytes %lu\n", lines, words, (unsigned long)n);
}

static void encode(const unsigned char* data, size_t n) {
  size_t column = 0;
  for (size_t i = 0; i < n; i += 3) {
    const uint32_t three = (uint32_t)data[i] << 16 | (i + 1 < n ? data[i + 1] << 8 : 0) |
                           (i + 2 < n ? data[i + 2] : 0);
    putchar(alphabet[three >> 18]);
    putchar(alphabet[three >> 12 & 63]);
    putchar(i + 1 < n ? alphabet[three >> 6 & 63] : '=');
    putchar(i + 2 < n ? alphabet[three & 63] : '=');
    column += 4;
    if (column == 76 || i + 3 >= n) {
      putchar('\n');
      column = 0;
    }
  }
}

static int decode(const unsigned char* data, size_t n) {
  uint32_t bits = 0;
  int have = 0;
  for (size_t i = 0; i < n; i++) {
    if (data[i] == '\n' || data[i] == '=') continue;
    const char* at = memchr(alphabet, data[i], 64);
    if (at == NULL) {
      fprintf(stderr, "sum: byte %lu is not base64\n", (unsigned long)i);
      return 1;
    }
    bits = bits << 6 | (uint32_t)(at - alphabet);
    have += 6;
    if (have >= 8) {
      have -= 8;
      putchar(bits >> have & 255);
    }
  }
  return 0;
}

int main(int argc, char** argv) {
  size_t n = 0;
  unsigned char* data = read_all(stdin, &n);
  if (argc > 1 && strcmp(argv[1], "-d") == 0) return decode(data, n);
#if CRC_TABLE > 0
  make_crc_table();
#endif
  printf("crc %08x\n", (unsigned)crc_of(data, n));
  print_counts(data, n);
  printf("entropy %ld\n", entropy_of(data, n));
  encode(data, n);
  return 0;
}
